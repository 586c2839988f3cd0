import { openAuditTrail, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { throwFault } from "@muster/faults";
import type { View } from "@muster/store";
import { toEvent, toWireEvent, PAGE_BYTES } from "./messages.ts";
import type { LeaseHistory, StoredValue } from "../holdings/records.ts";
import { buildHistory } from "../domain/build-history.ts";
import { countEventBytes } from "../domain/decide-quota.ts";
import type { LeaseEvent } from "../domain/lease.ts";

export function openHistory(bus: Bus): LeaseHistory {
  return openAuditTrail(bus, {
    type: muster.provision.v1.LeaseEvent,
    subjectOf: subjects.leaseAudited,
    keyOf: ({ lease }) => lease,
    idOf: ({ id }) => id,
    toWire: toWireEvent,
    fromWire: toEvent,
  });
}

type HistoryDeps = {
  readonly history: Pick<LeaseHistory, "page">;
  readonly view: Pick<View<StoredValue>, "get">;
};

const EVENTS = { fallback: 100, max: 500 };
/** The position before which the next page ends, and the order to which the position belongs. */
const TOKEN = /^(\d+)(?:-(\d*))?$/;

/**
 * A page of the history of the order that has the id, or had it last. `continue` comes from the previous page; empty selects the newest page. In the reply,
 * empty means that no older events exist.
 */
export async function readHistoryPage(
  { history, view }: HistoryDeps,
  { id, limit, continue: token }: { readonly id: string; readonly limit: number; readonly continue: string },
  signal: AbortSignal,
): Promise<{ readonly events: readonly LeaseEvent[]; readonly continue: string }> {
  const [, before, named] = token === "" ? [] : (TOKEN.exec(token) ?? refuse(token));
  const wanted = named ?? orderNow(view, id);
  const most = limit === 0 ? EVENTS.fallback : Math.min(limit, EVENTS.max);
  for (let asked = most; ; asked = Math.ceil(asked / 2)) {
    const query = { limit: asked, before: before === undefined ? undefined : Number(before) };
    const page = await history.page(id, query, signal);
    if (page.items.length > 1 && countEventBytes(page.items) > PAGE_BYTES) continue;
    const { events, order, isWhole } = buildHistory(page.items, wanted);
    const isMore = page.before !== undefined && !isWhole;
    return { events, continue: isMore ? `${page.before}-${order ?? ""}` : "" };
  }
}

function orderNow(view: HistoryDeps["view"], id: string): string | undefined {
  const value = view.get(id)?.value;
  return value !== undefined && "record" in value ? String(value.record.order.createdNs) : undefined;
}

function refuse(token: string): never {
  return throwFault({
    code: "invalid_request",
    field: "continue",
    reason: `"${token}" is not from the previous reply`,
  });
}
