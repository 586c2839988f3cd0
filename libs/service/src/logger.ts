import { trace } from "@opentelemetry/api";
import { destination, pino, stdSerializers, stdTimeFunctions, type Logger as Pino } from "pino";
import { LEVELS, redactFields } from "./redact.ts";

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

export function createLogger(options: {
  readonly level: LogLevel;
  readonly service: string;
  readonly instance: string;
}): Logger {
  const lines = pino(
    {
      level: options.level,
      base: { service: options.service, instance: options.instance },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: redactError },
      mixin: traceIds,
    },
    // Synchronous, so that the last words of a dying process are not lost.
    destination({ fd: 2, sync: true }),
  );
  return withoutSecrets(lines);
}

/** Not pino's `redact`, which copies each line with every object in it, also where no secret is. */
function withoutSecrets(lines: Pino): Logger {
  const write = (level: LogLevel): Logger[LogLevel] =>
    lines.isLevelEnabled(level) ? (fields, message) => lines[level](redactFields(fields), message) : () => undefined;
  return {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => withoutSecrets(lines.child(redactFields(fields))),
  };
}

/** An error becomes an object of its fields, which is one level of the line. */
function redactError(error: unknown): unknown {
  const plain: unknown = error instanceof Error ? stdSerializers.err(error) : error;
  return typeof plain === "object" && plain !== null ? redactFields(plain, LEVELS - 1) : plain;
}

function traceIds(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span === undefined ? {} : { traceId: span.traceId, spanId: span.spanId };
}
