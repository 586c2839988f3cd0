import { formatDuration, parseDuration } from "@muster/faults";
import { findNearestName } from "./nearest-name.ts";

export type Path = readonly (string | number)[];

/**
 * A problem of a document, at a field's value, at its name (`key`), or at its name if the message does not repeat the name (`pair`). A missing field is
 * reported at its mapping.
 */
export type Finding = { readonly path: Path; readonly at: "key" | "pair" | "value"; readonly message: string };

/** Reads typed values from plain data and collects all problems. Each method returns undefined after a finding. */
export type ValueReader = {
  readonly findings: readonly Finding[];
  report(path: Path, message: string, at?: Finding["at"]): void;
  /** A mapping with only these fields; `hidden` ones are not suggested. */
  mapping(
    path: Path,
    value: unknown,
    fields: readonly string[],
    hidden?: (field: string) => boolean,
  ): Readonly<Record<string, unknown>> | undefined;
  list(path: Path, value: unknown): readonly unknown[] | undefined;
  text(path: Path, value: unknown): string | undefined;
  oneOf<Word extends string>(path: Path, value: unknown, words: readonly Word[]): Word | undefined;
  integer(path: Path, value: unknown, limits: { readonly min: number; readonly max: number }): number | undefined;
  /** Milliseconds. */
  duration(path: Path, value: unknown, limits: { readonly min: number; readonly max: number }): number | undefined;
};

export function makeValueReader(): ValueReader {
  const findings: Finding[] = [];
  const report: ValueReader["report"] = (path, message, at = "value") => {
    findings.push({ path, at, message });
  };
  const wrongType = (path: Path, value: unknown, expected: string, hint = ""): void => {
    const given = value === undefined ? ", and is missing" : `, not ${describeValue(value)}`;
    report(path, `must be ${expected}${given}${hint}`);
  };
  return {
    findings,
    report,
    mapping: (path, value, fields, hidden = () => false) => {
      if (!isMapping(value)) {
        wrongType(path, value, "a mapping");
        return undefined;
      }
      for (const key of Object.keys(value)) {
        if (fields.includes(key)) continue;
        const proposed = fields.filter((field) => !hidden(field));
        report([...path, key], describeUnknownField(key, proposed), "key");
      }
      return value;
    },
    list: (path, value) => {
      if (Array.isArray(value)) return value as readonly unknown[];
      wrongType(path, value, "a list");
      return undefined;
    },
    text: (path, value) => {
      if (typeof value === "string") return value;
      const quotable = typeof value === "number" || typeof value === "boolean";
      wrongType(path, value, quotable ? `a string; write "${value}" with quotes` : "a string");
      return undefined;
    },
    oneOf: (path, value, words) => {
      const word = words.find((known) => known === value);
      if (word !== undefined) return word;
      const near = typeof value === "string" ? findNearestName(value, words) : undefined;
      wrongType(path, value, `one of ${words.join(", ")}`, suggest(near));
      return undefined;
    },
    integer: (path, value, { min, max }) => {
      if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
      wrongType(path, value, `a whole number from ${min} to ${max}`);
      return undefined;
    },
    duration: (path, value, { min, max }) => {
      const ms = typeof value === "string" ? parseDuration(value) : undefined;
      if (ms !== undefined && ms >= min && ms <= max) return ms;
      const unitless = typeof value === "number" && value > 0 ? `, such as ${value}s` : "";
      const range = `from ${formatDuration(min)} to ${formatDuration(max)}`;
      wrongType(path, value, `a duration ${range} with its unit${unitless}`);
      return undefined;
    },
  };
}

/** Describes a value in an error message, such as `the string "five"` or `a list`; long strings are truncated. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "string")
    return `the string ${JSON.stringify(value.length > 40 ? `${value.slice(0, 39)}…` : value)}`;
  if (typeof value === "number" || typeof value === "boolean") return `the ${typeof value} ${value}`;
  return "a mapping";
}

/** Describes an unknown field, with a suggestion from the known ones. */
export function describeUnknownField(key: string, fields: readonly string[]): string {
  const near = findNearestName(key, fields);
  const known = near === undefined ? `; known are ${fields.join(", ")}` : suggest(near);
  return `unknown field "${key.length > 64 ? `${key.slice(0, 63)}…` : key}"${known}`;
}

function suggest(near: string | undefined): string {
  return near === undefined ? "" : `; did you mean "${near}"?`;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
