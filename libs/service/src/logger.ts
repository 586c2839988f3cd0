import { trace } from "@opentelemetry/api";
import { destination, pino, stdTimeFunctions } from "pino";

/** One line of JSON a call on standard error, with the ids of the active span. The message is a constant; what varies goes into fields. */
export type Logger = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
};

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

/** Field names that must not reach a log, in the line itself and two objects deep: a fault carries its cause, and both what they were made with. */
const SECRETS = ["token", "password", "authorization", "seed", "nkey", "privateKey", "secret", "kubeconfig"].flatMap(
  (name) => [name, `*.${name}`, `*.*.${name}`],
);

export function createLogger(options: {
  readonly level: LogLevel;
  readonly service: string;
  readonly instance: string;
}): Logger {
  return pino(
    {
      level: options.level,
      base: { service: options.service, instance: options.instance },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: SECRETS,
      mixin: traceIds,
    },
    // Synchronous, so that the last words of a dying process are not lost.
    destination({ fd: 2, sync: true }),
  );
}

function traceIds(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span === undefined ? {} : { traceId: span.traceId, spanId: span.spanId };
}
