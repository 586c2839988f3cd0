import type { Bell } from "@muster/backoff";
import type { Bus } from "@muster/bus";
import { listenReservations } from "@muster/ledger-client";
import { PART_OWNER_CHARACTERS } from "@muster/names";
import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { needsPass, type SessionDigest } from "../domain/plan-sweep.ts";
import { REPLACEMENT_KIND, SESSION_KIND, getReplacementSession } from "../domain/replacement-owner.ts";
import type { SessionFollowers } from "../followers.ts";
import type { HintReceivers } from "../sessions.ts";

/** Receivers of hints. The resync and the sweep compensate for lost hints. */
type HintDeps = {
  readonly followers: SessionFollowers;
  /** Rings when a pod of a finished session is observed. */
  readonly leftover: Bell;
  readonly index: View<SessionDigest>;
  readonly pods: View<muster.watch.v1.PodState>;
  /** Undefined while another replica leads. */
  readonly led: () => HintReceivers | undefined;
};

/** Schedules a pass over each session whose record or pods have changed, and notifies its followers. */
export function followViews({ index, pods, followers, leftover, led }: HintDeps): void {
  index.onChange((name) => {
    const entry = index.get(name);
    const revision = entry?.revision ?? Number.MAX_SAFE_INTEGER;
    followers.changed(name, revision);
    const leading = led();
    if (leading === undefined || !leading.sessions.isUnseenChange(name, revision)) return;
    const isRun = leading.sessions.has(name);
    // A running session comes before sessions that are submitted at the same time.
    if (isRun || (entry !== undefined && needsPass(entry.value))) leading.queue.add(name, isRun ? "high" : "low");
  });
  pods.onChange((key) => {
    const session = key.split(".")[1];
    if (session === undefined) return;
    const isOver = (index.get(session)?.value.finishedAtMs ?? 0) > 0;
    if (!isOver) led()?.queue.add(session);
    else if (pods.get(key)?.value.deleted === false) leftover.ring();
  });
}

/** Schedules a pass for each grant to a session or component. The pass queries the ledger. */
export function followGrants(
  bus: Pick<Bus, "listen">,
  { index, led }: Pick<HintDeps, "index" | "led">,
): Promise<AsyncDisposable> {
  return listenReservations(bus, [SESSION_KIND, REPLACEMENT_KIND], {
    granted: ({ ownerId }, kind) => {
      const leading = led();
      if (leading === undefined) return;
      for (const session of kind === SESSION_KIND ? [ownerId] : listReplacingSessions(index, ownerId)) {
        if (index.get(session)?.value.finishedAtMs !== 0) continue;
        leading.sessions.granted(session);
        leading.queue.add(session);
      }
    },
  });
}

/** Lists the sessions that a replacement machine may belong to. Its owner id contains only the beginning of a long name. */
function listReplacingSessions(index: HintDeps["index"], ownerId: string): readonly string[] {
  const name = getReplacementSession(ownerId);
  if (name.length < PART_OWNER_CHARACTERS) return [name];
  return index.entries().flatMap(({ key }) => (key.startsWith(name) ? [key] : []));
}
