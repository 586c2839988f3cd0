import { SpanKind } from "@opentelemetry/api";
import { streams, type AnyMessageType, type MessageOf, type PropertiesOf } from "@muster/proto";
import { FaultError } from "@muster/faults";
import { extractTrace, injectTrace, inSpan } from "@muster/tracing";
import { publishDeadLetter } from "./dead-letter.ts";
import type { Bus, ConsumeOptions, Delivery, PublishResult } from "./bus.ts";
import { encodeMessage, tryDecode, getTypeName } from "./messages.ts";
import { header } from "./wire-headers.ts";

/** One event in flight. */
type EventContext = Omit<Delivery, "payload" | "headers" | "giveUp"> & {
  /** Dead-letters the message with the reason, then ends it. `reason` omits the content, for messages with secrets. */
  giveUp(reason: string, keep?: "message" | "reason"): void;
};

export type EventOptions = ConsumeOptions & {
  /** Messages that cannot be handled go to `muster.dead.<area>`. */
  readonly area: string;
  /** Attempts after which a message is dead-lettered. Default: no limit. */
  readonly maxAttempts?: number;
};

/** Appends one typed event or command to its stream, with trace context and the full type name in headers. */
export function publishEvent<Type extends AnyMessageType>(
  bus: Bus,
  subject: string,
  type: Type,
  message: PropertiesOf<Type>,
  options: { readonly messageId: string },
): Promise<PublishResult> {
  const template = buildTemplate(subject);
  const span = { kind: SpanKind.PRODUCER, attributes: buildAttributes("send", template) };
  return inSpan("@muster/bus", `send ${template}`, span, async () => {
    const headers = new Map([[header.type, getTypeName(type)]]);
    injectTrace(headers);
    return bus.publish(subject, encodeEvent(type, message), { messageId: options.messageId, headers });
  });
}

/**
 * Passes each event to the handler as a typed message, under the trace of its sender. Acknowledges it after the handler returns, unless the handler has ended
 * it. Dead-letters a payload that does not decode on `muster.dead.<area>`. A handler may receive a message twice.
 */
export async function consumeEvents<Type extends AnyMessageType>(
  bus: Bus,
  options: EventOptions,
  type: Type,
  handler: (message: MessageOf<Type>, context: EventContext) => Promise<void>,
): Promise<AsyncDisposable> {
  const { maxAttempts = Number.POSITIVE_INFINITY } = options;
  const spanName = `process ${options.subject}`;
  const span = { kind: SpanKind.CONSUMER, attributes: buildAttributes("process", options.subject) };
  await bus.ensureStream(streams.dead);
  return bus.consume(options, (delivery) =>
    inSpan("@muster/bus", spanName, { ...span, parent: extractTrace(delivery.headers) }, async () => {
      const message = tryDecode(type, delivery.payload);
      if (message === undefined) {
        await publishDeadLetter(bus, options, delivery, `payload is not a ${getTypeName(type)}`);
        return;
      }
      const { context, end, hasEnded } = makeEventContext(bus, options, delivery);
      try {
        await handler(message, context);
      } catch (error) {
        if (delivery.attempt < maxAttempts || hasEnded()) throw error;
        await publishDeadLetter(
          bus,
          options,
          delivery,
          `failed ${delivery.attempt} times, at last because ${describeError(error)}`,
        );
        return;
      }
      await end();
    }),
  );
}

/** The handler's view of a delivery, and the steps after the handler has returned. */
function makeEventContext(
  bus: Bus,
  options: EventOptions,
  delivery: Delivery,
): { context: EventContext; end: () => Promise<void>; hasEnded: () => boolean } {
  let ended = false;
  let burial: Promise<void> | undefined;
  const { subject, sequence, attempt } = delivery;
  const context: EventContext = {
    subject,
    sequence,
    attempt,
    working: () => {
      delivery.working();
    },
    ack: async () => {
      await delivery.ack();
      ended = true;
    },
    retry: (delayMs) => {
      ended = true;
      delivery.retry(delayMs);
    },
    giveUp: (reason, keep) => {
      if (ended) return;
      ended = true;
      burial = publishDeadLetter(bus, options, delivery, reason, keep);
      // `end` awaits the promise; if the handler throws first, the rejection must not stay unhandled.
      burial.catch(() => undefined);
    },
  };
  const end = async (): Promise<void> => {
    if (burial !== undefined) await burial;
    else if (!ended) await delivery.ack();
  };
  return { context, end, hasEnded: () => ended };
}

function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function encodeEvent<Type extends AnyMessageType>(type: Type, message: PropertiesOf<Type>): Uint8Array {
  try {
    return encodeMessage(type, message);
  } catch (cause) {
    const reason = `is not a ${getTypeName(type)}`;
    throw new FaultError({ code: "invalid_request", field: "event", reason }, { cause });
  }
}

/** Omits the key from muster.evt.<area>.<key>.<verb>, so that the number of span names stays bounded. */
function buildTemplate(subject: string): string {
  const tokens = subject.split(".");
  return tokens.length === 5 ? tokens.with(3, "*").join(".") : subject;
}

function buildAttributes(operation: "send" | "process", template: string): Record<string, string> {
  return {
    "messaging.system": "nats",
    "messaging.operation.type": operation,
    "messaging.destination.template": template,
  };
}
