import { throwFault } from "@muster/faults";

/** Reads one typed value at a time and remembers the errors. */
export type EnvReader = {
  /** Text that is not empty; without a fallback the variable must be set. */
  text(name: string, fallback?: string): string;
  optional(name: string): string | undefined;
  /** Text of one form; `needed` describes the form. */
  matching(
    name: string,
    form: { readonly fallback?: string; readonly pattern: RegExp; readonly needed: string },
  ): string;
  /** Reads one or more URLs, separated by commas; a password may precede the @. */
  url(name: string, fallback?: string): string;
  /** Reads a URL of http or https without a user and a password: errors and logs contain the URL. */
  httpUrl(name: string): string;
  /** A whole number between min and max; the end of the name states the unit. */
  integer(name: string, options: { readonly fallback?: number; readonly min: number; readonly max: number }): number;
  flag(name: string, fallback: boolean): boolean;
  oneOf<Word extends string>(name: string, words: readonly Word[], fallback: Word): Word;
};

/**
 * Builds a configuration from the environment:
 *
 *   readEnv(env, (read) => ({ natsUrl: read.url("MUSTER_NATS_URL", "nats://127.0.0.1:4222") }))
 *
 * Throws one FaultError (invalid_request) that names every wrong or missing variable, one a line, its value and what would be right. An empty variable counts
 * as absent.
 */
export function readEnv<Config>(
  env: Readonly<Record<string, string | undefined>>,
  build: (read: EnvReader) => Config,
): Config {
  const problems: string[] = [];
  const config = build(reader(env, problems));
  if (problems.length > 0) {
    const lines = problems.length === 1 ? problems : ["", ...problems];
    throwFault({ code: "invalid_request", field: "environment", reason: lines.join("\n") });
  }
  return config;
}

function reader(env: Readonly<Record<string, string | undefined>>, problems: string[]): EnvReader {
  const optional = (name: string): string | undefined => {
    const value = env[name]?.trim();
    return value === "" ? undefined : value;
  };
  /** Returns a placeholder of the right type, so that the next variables are also checked; it never leaves `readEnv`. */
  const wrong = <Value>(problem: string, standIn: Value): Value => {
    problems.push(problem);
    return standIn;
  };
  const text = (name: string, fallback?: string): string =>
    optional(name) ?? fallback ?? wrong(`${name} is missing`, "");

  return {
    text,
    optional,
    matching: (name, { fallback, pattern, needed }) => {
      const value = text(name, fallback);
      if (value === "" || pattern.test(value)) return value;
      return wrong(`${name} is "${value}"; ${needed}`, value);
    },
    url: (name, fallback) => {
      const value = text(name, fallback);
      const parts = value.split(",").map((part) => part.trim());
      if (value === "" || parts.every((part) => URL.canParse(part))) return value;
      return wrong(
        `${name} is "${withoutPassword(value)}"; a URL such as ${fallback ?? "nats://host:4222"} is needed`,
        value,
      );
    },
    httpUrl: (name) => {
      const value = text(name);
      const parsed = URL.parse(value);
      const needed = `is "${withoutPassword(value)}"; a URL such as https://host:8080/path is needed`;
      if (parsed === null || !/^https?:$/.test(parsed.protocol)) return wrong(`${name} ${needed}`, value);
      if (parsed.username === "" && parsed.password === "") return value;
      return wrong(`${name} ${needed}, without a user and a password`, value);
    },
    integer: (name, { fallback, min, max }) => {
      const value = optional(name);
      if (value === undefined)
        return fallback ?? wrong(`${name} is missing; a whole number from ${min} to ${max} is needed`, min);
      const number = Number(value);
      if (/^-?\d+$/.test(value) && number >= min && number <= max) return number;
      return wrong(`${name} is "${value}"; a whole number from ${min} to ${max} is needed`, min);
    },
    flag: (name, fallback) => {
      const value = optional(name)?.toLowerCase();
      if (value === undefined) return fallback;
      if (value === "true" || value === "1") return true;
      if (value === "false" || value === "0") return false;
      return wrong(`${name} is "${value}"; true or false is needed`, fallback);
    },
    oneOf: (name, words, fallback) => {
      const value = optional(name);
      if (value === undefined) return fallback;
      return (
        words.find((word) => word === value) ??
        wrong(`${name} is "${value}"; one of ${words.join(", ")} is needed`, fallback)
      );
    },
  };
}

/** The text before the @ may contain a password. */
function withoutPassword(url: string): string {
  return url.replaceAll(/([a-z]+:?\/\/)?[^,]*@/gi, (_, scheme: string | undefined) => `${scheme ?? ""}...@`);
}
