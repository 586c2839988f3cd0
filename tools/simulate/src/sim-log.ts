import { entryCodec } from "@muster/reservation-manager/messages";
import { emptyLedger, evolveLedger, type Ledger, type LedgerEvent } from "@muster/reservation-manager/ledger";
import { snapshotCodec } from "@muster/reservation-manager/snapshot-codec";
import { throwFault } from "@muster/faults";
import type { Leadership } from "@muster/store";
import { LogWriter } from "@muster/store/log-writer";
import type { Network } from "./network.ts";
import type { Trace } from "./trace.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { drawDelayMs, drawFault, type FaultRisks } from "./fault-risks.ts";

/** The stream of the ledger's log. */
export type LogWorld = {
  readonly entries: { readonly token: number; readonly bytes: Uint8Array }[];
  /** Whether an append must name the last entry. */
  fenced: boolean;
  /** The stored snapshot, as bytes. */
  snapshot: { readonly sequence: number; readonly bytes: Uint8Array } | undefined;
  /** Entries between snapshots; Infinity: leaders write and read none. */
  snapshotEveryEntries: number;
  /** Called for each stored entry, before its writer gets the answer. */
  readonly onEntry: ((events: readonly LedgerEvent[], sequence: number) => void)[];
};

export type LogWires = {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly weather: FaultRisks;
  readonly trace: Trace;
};

/** Opens the log for the new leader: fences the previous writer, and reads all its entries. */
export async function openSimLog(
  world: LogWorld,
  wires: LogWires,
  leadership: Leadership,
): Promise<LogWriter<Ledger, LedgerEvent>> {
  const { network } = wires;
  const { token } = leadership;
  const fence = await network.call("nats", `fence the ledger with token ${token}`, () => {
    const last = world.entries.at(-1)?.token ?? 0;
    if (last > token) throwFault({ code: "conflict", id: "ledger", expectedRevision: token, actualRevision: last });
    return append(world, token, entryCodec.encode([]));
  });
  const snapshot = await readSnapshot(world, network);
  // A later leader has written it meanwhile. The real log reads its snapshot before it fences.
  if (snapshot.sequence > fence)
    throwFault({ code: "conflict", id: "ledger", expectedRevision: fence, actualRevision: snapshot.sequence });
  const bytes = await network.call("nats", "read the ledger", () => world.entries.slice(snapshot.sequence, fence));
  const state = bytes.flatMap((entry) => entryCodec.decode(entry.bytes)).reduce(evolveLedger, snapshot.state);
  return new LogWriter<Ledger, LedgerEvent>(
    {},
    {
      config: {
        stream: { name: "ledger", subject: "ledger" },
        events: entryCodec,
        snapshots: {
          bucket: "",
          key: "",
          codec: snapshotCodec,
          everyEntries: world.snapshotEveryEntries,
          keepEntries: Infinity,
        },
        initial: emptyLedger,
        evolve: evolveLedger,
        token,
        signal: leadership.signal,
        isHeld: leadership.isHeld,
        onProblem: ({ message }) => wires.trace.note("ledger", message),
      },
      stream: {
        ensure: () => Promise.resolve(),
        lastToken: () => Promise.resolve(world.entries.at(-1)?.token ?? 0),
        fence: () => Promise.reject(new Error("the log was already fenced when it was opened")),
        read: () => {
          throw new Error("the log was already read when it was opened");
        },
        append: (entry, expectedLast) => appendAfter(world, wires, token, entry, expectedLast),
        dropBefore: () => Promise.reject(new Error("the simulated log keeps all its entries")),
      },
      snapshots: {
        read: () => Promise.reject(new Error("the snapshot was already read when the log was opened")),
        write: (taken) => writeSnapshot(world, network, taken),
      },
      recovered: { state, sequence: fence },
      snapshotAt: snapshot.sequence,
    },
  );
}

type TakenSnapshot = { readonly state: Ledger; readonly sequence: number };

async function readSnapshot(world: LogWorld, network: Network): Promise<TakenSnapshot> {
  const stored =
    world.snapshotEveryEntries === Infinity
      ? undefined
      : await network.call("nats", "read the snapshot of the ledger", () => world.snapshot);
  if (stored === undefined) return { state: emptyLedger, sequence: 0 };
  return { state: await snapshotCodec.assemble([stored.bytes]), sequence: stored.sequence };
}

function writeSnapshot(world: LogWorld, network: Network, { state, sequence }: TakenSnapshot): Promise<void> {
  const bytes = Buffer.concat([...snapshotCodec.pieces(state)]);
  return network.call("nats", `write the snapshot of the ledger at ${sequence}`, () => {
    if ((world.snapshot?.sequence ?? 0) < sequence) world.snapshot = { sequence, bytes };
  });
}

function append(world: LogWorld, token: number, bytes: Uint8Array): number {
  const sequence = world.entries.push({ token, bytes });
  const events = entryCodec.decode(bytes);
  for (const listener of world.onEntry) listener(events, sequence);
  return sequence;
}

type Appended = Awaited<ReturnType<LogStreamAppend>>;
type LogStreamAppend = ConstructorParameters<typeof LogWriter<Ledger, LedgerEvent>>[1]["stream"]["append"];

/** The real stream checks the outcome when an answer is lost; an outcome that it cannot determine in time is unknown. */
function appendAfter(
  world: LogWorld,
  { time, weather, trace }: LogWires,
  token: number,
  bytes: Uint8Array,
  expectedLast: number,
): Promise<Appended> {
  const from = time.current();
  return new Promise((resolve) => {
    const answer = (appended: Appended, delayMs: number): void => {
      trace.note(from?.name ?? "world", `append to the ledger behind ${expectedLast}: ${appended.kind}`);
      time.after(delayMs, from, () => resolve(appended));
    };
    const unknown = (): void => answer({ kind: "unknown", error: undefined }, weather.random.integer(50, 30_000));
    time.after(drawDelayMs(weather), undefined, () => {
      if (weather.away.has("nats") || drawFault(weather, "call lost", weather.risks.lostBefore / 4)) {
        unknown();
        return;
      }
      if (world.fenced && world.entries.length !== expectedLast) {
        answer({ kind: "deposed", error: undefined }, drawDelayMs(weather));
        return;
      }
      const sequence = append(world, token, bytes);
      if (drawFault(weather, "answer lost", weather.risks.lostAfter / 4)) {
        unknown();
        return;
      }
      answer({ kind: "written", sequence }, drawDelayMs(weather));
    });
  });
}
