import { MAX_ACCEPTED_POOLS } from "@muster/resources";
import { SESSION_LIMITS, countSessionTextBytes } from "@muster/session-limits";
import fc from "fast-check";
import { expect, it } from "vitest";
import { makeComponent, makeDraft, START_MS } from "../../test/samples.ts";
import { decideVerdict } from "../domain/decide-verdict.ts";
import { explainWait } from "../domain/explain-wait.ts";
import { buildRecord, type SessionRecord } from "../domain/session.ts";
import { summariseComponents } from "../domain/summarise-components.ts";
import { transitionRecord, type SessionOutcome } from "../domain/transition-record.ts";
import { validateSession } from "../domain/validate-session.ts";
import { recordCodec } from "./messages.ts";

/** The maximum value size of a bucket. */
const RECORD_BYTES = 512 * 1024;
const DEFAULTS = { timeoutMs: 900_000, queueTimeoutMs: 1e6, ttlMs: 1e6, killAfterMs: 5000, workerPort: 10_000 };
/** Text that only this service limits. */
const ENDLESS = "\u20ac".repeat(10_000);

/** Builds a session of the maximum accepted size, with its text in this many pieces of these characters. */
function fullDraft(components: number, pieces: number, letter: string, pools: number) {
  const names = Array.from({ length: components }, (_, index) => `${"c".repeat(44)}-${String(index).padStart(3, "0")}`);
  const [pool = "", ...otherPools] = Array.from({ length: pools }, (_, index) => "p".repeat(62) + String(index));
  const made = names.map((name, index) =>
    makeComponent(name, index === 0 ? "driver" : "server", { pool, otherPools, image: "i", args: [] as string[] }),
  );
  const room = SESSION_LIMITS.textBytes - countSessionTextBytes(made);
  const each = Math.floor(room / pieces) - 8;
  const bytes = Buffer.byteLength(letter);
  const args = Array.from({ length: each < 0 ? 0 : pieces }, () => letter.repeat(Math.floor(each / bytes)));
  const [driver, ...others] = made;
  const scenarioJson = JSON.stringify("s".repeat(SESSION_LIMITS.scenarioBytes - 2));
  return makeDraft({ components: [...(driver === undefined ? [] : [{ ...driver, args }]), ...others], scenarioJson });
}

/** Fills every field of a record to its maximum length. */
function filled(made: SessionRecord): SessionRecord {
  const machines = made.components.map(({ name, pool }) => ({ component: name, pool, node: "n".repeat(253) }));
  const granted = { kind: "ACCEPT", atMs: START_MS, description: "\u20ac".repeat(1024), reason: "" } as const;
  const uid = "0".repeat(36);
  const outcomes: SessionOutcome[] = [
    { kind: "note-reservation", reservationId: "r".repeat(64), warnings: [], because: "ledger-answered" },
    { kind: "accept", event: granted, machines, because: "machines-granted" },
    ...made.components.map(
      ({ name }) => ({ kind: "pod-created", component: name, uid, node: "n".repeat(253) }) as const,
    ),
  ];
  const created = outcomes.reduce(transitionRecord, made);
  const pods = created.components.map(({ pod, node }) => ({
    pod,
    uid,
    resourceVersion: 1,
    podIp: "f".repeat(39),
    node,
    health: "FAILED" as const,
    reason: ENDLESS,
    message: ENDLESS,
    deleted: true,
    exitCode: 255,
  }));
  const components = summariseComponents(created, pods, undefined);
  const seen = { ...created, components: components.map((each) => ({ ...each, lostAtMs: START_MS })) };
  const snapshot = {
    nowMs: START_MS,
    record: seen,
    reservation: { state: "unknown" as const },
    pods,
    livePods: undefined,
    isProgressReported: false,
    isReading: false,
    obstacles: [],
    nodesLost: new Map(),
    nodesBack: new Set<string>(),
    heldMs: 0,
    replacements: new Map(),
    trouble: ENDLESS,
  };
  const verdict = decideVerdict(snapshot, components, { replacementWaitMs: 0 });
  if (verdict === undefined) throw new Error("a failed component is no verdict");
  const warnings = Array.from({ length: 40 }, () => ({ code: "LOGS_LOST" as const, message: "\u20ac".repeat(256) }));
  const resultJson = `{"r":"${"x".repeat(32 * 1024 - 8)}"}`;
  const ending: SessionOutcome[] = [
    { kind: "conclude", verdict, because: "COMPONENT_FAILED" },
    { kind: "explain-wait", text: explainWait(snapshot, components), because: "wait-changed" },
    // All but one component, which gives the largest record.
    ...created.components.slice(1).map(({ pod }) => ({ kind: "logs-read", pod, warnings, resultJson }) as const),
  ];
  return ending.reduce(transitionRecord, { ...seen, executor: "e".repeat(253), requestId: "\u20ac".repeat(128) });
}

it("the record of every accepted session fits, whatever is written into it later", () => {
  const { components: most } = SESSION_LIMITS;
  fc.assert(
    fc.property(
      fc.oneof(fc.constant(most), fc.integer({ min: 1, max: most })),
      fc.integer({ min: 1, max: 12_000 }),
      fc.constantFrom("x", "\u00e9", "\u20ac", "\u{1f600}"),
      fc.integer({ min: 1, max: MAX_ACCEPTED_POOLS }),
      (components, pieces, letter, pools) => {
        const name = "s".repeat(14);
        const validated = validateSession(name, fullDraft(components, pieces, letter, pools), DEFAULTS, "pool");
        if (!validated.ok) throw new Error(JSON.stringify(validated.fault));
        const made = buildRecord({
          name,
          uid: "0".repeat(36),
          requestId: "r",
          spec: validated.spec,
          traceparent: "0".repeat(55),
          nowMs: START_MS,
          waitingBecause: "",
        });
        expect(recordCodec.encode(filled(made)).length).toBeLessThanOrEqual(RECORD_BYTES);
      },
    ),
  );
});
