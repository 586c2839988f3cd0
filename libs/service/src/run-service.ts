import type { Logger } from "./logger.ts";

export type ServiceContext<Config> = {
  readonly config: Config;
  readonly logger: Logger;
  /** Aborted on SIGINT and SIGTERM, once: finish what is in hand and return. */
  readonly signal: AbortSignal;
  /** Unique per process: `<service>-<host>-<pid>-<random>`. */
  readonly instance: string;
  readonly version: string;
  /** Ready (HTTP /readyz) only while every check returns undefined; a check returns what is missing. Also shown by `/readyz?verbose`. */
  readyWhen(name: string, check: () => string | undefined): void;
};

export type ServiceDefinition<Config> = {
  readonly name: string;
  readonly readConfig: (env: Readonly<Record<string, string | undefined>>) => Config;
  /** Runs until the context's signal; returning earlier, or throwing, ends the process with exit code 1. */
  readonly run: (context: ServiceContext<Config>) => Promise<void>;
};

/**
 * The whole of a service's main: configuration (all problems in one message, exit code 2), logger, signals, and an HTTP server with /livez, /readyz and /metrics
 * on MUSTER_HTTP_ADDR (default 127.0.0.1:0, the bound port is logged), then `run`. A second signal, or MUSTER_STOP_TIMEOUT_MS (default 20000) after the first,
 * ends the process at once.
 */
export function runService<Config>(definition: ServiceDefinition<Config>): Promise<void> {
  void definition;
  throw new Error("pending");
}
