import { entryCodec } from "@muster/reservation-manager/messages";
import { emptyLedger, evolve, type Ledger, type LedgerEvent } from "@muster/reservation-manager/ledger";
import { throwFault } from "@muster/faults";
import type { Leadership } from "@muster/store";
import { LogWriter } from "@muster/store/log-writer";
import type { Network } from "./network.ts";
import type { Trace } from "./trace.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { drawDelayMs, drawFault, type Weather } from "./weather.ts";

/** The stream of the ledger's log. */
export type LogWorld = {
  readonly entries: { readonly token: number; readonly bytes: Uint8Array }[];
  /** Whether an append must name the last entry. */
  fenced: boolean;
  /** Called for each stored entry, before its writer gets the answer. */
  readonly onEntry: ((events: readonly LedgerEvent[], sequence: number) => void)[];
};

export type LogWires = {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly weather: Weather;
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
  const bytes = await network.call("nats", "read the ledger", () => world.entries.slice(0, fence));
  const state = bytes.flatMap((entry) => entryCodec.decode(entry.bytes)).reduce(evolve, emptyLedger);
  const none = (): Promise<never> => Promise.reject(new Error("the simulated log keeps all its entries"));
  return new LogWriter<Ledger, LedgerEvent>(
    {},
    {
      config: {
        stream: { name: "ledger", subject: "ledger" },
        events: entryCodec,
        snapshots: { bucket: "", key: "", codec: { encode: none, decode: none } as never, everyEntries: Infinity },
        initial: emptyLedger,
        evolve,
        token,
        signal: leadership.signal,
        isHeld: leadership.isHeld,
      },
      stream: {
        ensure: () => Promise.resolve(),
        lastToken: () => Promise.resolve(world.entries.at(-1)?.token ?? 0),
        fence: none,
        read: () => {
          throw new Error("the log was already read when it was opened");
        },
        append: (entry, expectedLast) => appendAfter(world, wires, token, entry, expectedLast),
        dropBefore: none,
      },
      snapshots: { read: () => Promise.resolve(undefined), write: none },
      recovered: { state, sequence: fence },
      snapshotAt: 0,
    },
  );
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
