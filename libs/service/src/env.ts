/**
 * Reads one typed value at a time and collects what is wrong, so that one error names every problem:
 *
 *   const config = readEnv(env, (read) => ({ natsUrl: read.url("MUSTER_NATS_URL", "nats://127.0.0.1:4222"), ... }));
 */
export type EnvReader = {
  text(name: string, fallback?: string): string;
  optional(name: string): string | undefined;
  url(name: string, fallback?: string): string;
  /** A whole number between min and max; the unit is the end of the name. */
  integer(name: string, options: { fallback?: number; min: number; max: number }): number;
  flag(name: string, fallback: boolean): boolean;
  oneOf<Word extends string>(name: string, words: readonly Word[], fallback: Word): Word;
};

/** Builds a configuration from the environment. Throws one FaultError (invalid_request) that names every wrong or missing variable, its value and what would be right. */
export function readEnv<Config>(
  env: Readonly<Record<string, string | undefined>>,
  build: (read: EnvReader) => Config,
): Config {
  void env;
  void build;
  throw new Error("pending");
}
