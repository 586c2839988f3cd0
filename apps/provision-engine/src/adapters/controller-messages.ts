import { parseRfc3339, type Order, type Result } from "@muster/leases";
import type { muster } from "@muster/proto";
import { z } from "zod";
import type { PolledOrder } from "../orders/poll-source.ts";

/** An entry of a page that is not a valid order. */
type UnreadableOrder = { readonly id: string; readonly reason: string };

type OrdersPage = {
  readonly orders: readonly PolledOrder[];
  readonly unreadable: readonly UnreadableOrder[];
  /** The controller has ended and will never have more orders. */
  readonly isLast: boolean;
};

const MAX_TEXT_CHARACTERS = 256;
const text = z.string().max(MAX_TEXT_CHARACTERS);

const time = z.string().transform((written, context) => {
  const atNs = parseRfc3339(written);
  if (atNs !== undefined) return atNs;
  context.addIssue("is not an RFC 3339 time");
  return z.NEVER;
});

const base64 = z.base64().transform((written) => new Uint8Array(Buffer.from(written, "base64")));

const wireOrder = z.object({
  id: text,
  engine: text,
  user: text,
  type: text,
  // A string, so that every signed byte arrives unchanged.
  data: z.string(),
  created: time,
  // Too large for a JSON number.
  duration: z
    .string()
    .regex(/^\d{1,19}$/, "is not a decimal number of nanoseconds")
    .transform(BigInt),
  reference: text.optional(),
  version: z
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .default(0),
  signature: base64,
  signature_format: z.enum(["muster-lease-v1", "legacy"]).default("muster-lease-v1"),
  to_delete: z.boolean().default(false),
  result: z.object({ created: time, data: z.string().default("") }).nullish(),
});

const page = z.object({ orders: z.array(z.unknown()), end: z.boolean().default(false) });

/** Parses a page of orders; undefined if the text is not a page. An unreadable entry does not affect other entries. */
export function readOrdersPage(json: string): OrdersPage | undefined {
  const parsed = page.safeParse(parse(json));
  if (!parsed.success) return undefined;
  const orders: PolledOrder[] = [];
  const unreadable: UnreadableOrder[] = [];
  for (const each of parsed.data.orders) {
    const read = wireOrder.safeParse(each);
    if (read.success) orders.push(toPolled(read.data));
    else unreadable.push({ id: readId(each), reason: describe(read.error) });
  }
  return { orders, unreadable, isLast: parsed.data.end };
}

function toPolled({ created, duration, signature_format, to_delete, result, ...rest }: z.output<typeof wireOrder>) {
  const { reference, ...named } = rest;
  const order: Order = {
    ...named,
    reference: reference === "" ? undefined : reference,
    createdNs: created,
    durationNs: duration,
    signatureFormat: signature_format,
  };
  const isAnswered =
    result !== null && result !== undefined && !isNilResult({ createdNs: result.created, data: result.data });
  return { order, withdrawn: to_delete, isAnswered };
}

/** Formats a result for controllers. */
export function toJsonResult({ id, type, createdNs, state, message, data, signature }: Result): object {
  return {
    id,
    type,
    created_ns: String(createdNs),
    state,
    message,
    data,
    signature: Buffer.from(signature).toString("base64"),
  };
}

/** Formats counters for controllers, with the field names on the wire. `null` in a capacity means unlimited. */
export function toJsonStats({
  engine,
  counters,
  used,
  capacity,
}: muster.provision.v1.GetCountersReply.$Properties): object {
  const units = (each: typeof used) => ({
    cru: each?.cru ?? null,
    mru_bytes: each?.mruBytes ?? null,
    hru_bytes: each?.hruBytes ?? null,
    sru_bytes: each?.sruBytes ?? null,
  });
  return { engine, counters, used: units(used), capacity: capacity ? units(capacity) : null };
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}

function readId(each: unknown): string {
  const read = z.object({ id: text }).safeParse(each);
  return read.success ? read.data.id : "";
}

function describe({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.map(String).join(".")}: ${message}`).join("; ");
}

/** Year 1, which the original system writes for a time that was never set. */
const ZERO_TIME_NS = -62_135_596_800n * 1_000_000_000n;

/** Whether a result was never produced. Ignores its state and type, which controllers fill in without a result. */
export function isNilResult({ createdNs, data }: Pick<Result, "createdNs" | "data">): boolean {
  return (createdNs === 0n || createdNs === ZERO_TIME_NS) && (data === "" || data === "null");
}
