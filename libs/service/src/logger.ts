import { trace } from "@opentelemetry/api";
import { destination, pino, stdSerializers, stdTimeFunctions, type Logger as Pino } from "pino";
import { LEVELS, redactFields } from "./redact.ts";

/**
 * Writes one line of JSON per call to standard error, with the ids of the active span. The message is constant; variable data goes into fields. Warnings and
 * errors are written immediately. Other lines of one turn of the event loop are one write; a killed process may lose those of its last turn.
 */
export type Logger = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
};

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

/** Maximum characters of the waiting lines. Beyond it, the lines of a turn are written before its end. */
const MAX_WAITING_LENGTH = 8192;

export function createLogger(options: {
  readonly level: LogLevel;
  readonly service: string;
  readonly instance: string;
}): Logger {
  const output = linesPerTurn();
  const lines = pino(
    {
      level: options.level,
      base: { service: options.service, instance: options.instance },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: redactError },
      mixin: traceIds,
    },
    output,
  );
  return withoutSecrets(lines, output.flush);
}

/** Writes the lines of one turn to standard error together. A write per line would cost a busy service more than the rest of the line. */
function linesPerTurn(): { readonly write: (line: string) => void; readonly flush: () => void } {
  // Synchronous, so that the last lines of a dying process are written. Not its own buffer: its `flushSync` never returns once the pipe has no reader.
  const stream = destination({ fd: 2, sync: true });
  let waiting = "";
  let isDue = false;
  const flush = (): void => {
    const lines = waiting;
    waiting = "";
    if (lines !== "") stream.write(lines);
  };
  const flushAtEnd = (): void => {
    isDue = false;
    flush();
  };
  process.on("exit", flush);
  return {
    write: (line) => {
      waiting += line;
      if (waiting.length >= MAX_WAITING_LENGTH) flush();
      if (isDue) return;
      isDue = true;
      setImmediate(flushAtEnd);
    },
    flush,
  };
}

/** Replaces pino's `redact`, which copies each line with every object in it, even without a secret. */
function withoutSecrets(lines: Pino, flush: () => void): Logger {
  const write = (level: LogLevel): Logger[LogLevel] => {
    if (!lines.isLevelEnabled(level)) return () => undefined;
    return (fields, message) => {
      lines[level](redactFields(fields), message);
      if (level === "warn" || level === "error") flush();
    };
  };
  return {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => withoutSecrets(lines.child(redactFields(fields)), flush),
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
