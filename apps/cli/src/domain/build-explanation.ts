import { formatElapsed } from "./duration.ts";
import { describeScaling, describeSilence } from "./build-node-views.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { colourOf, paint } from "./paint.ts";
import { plural } from "./plural.ts";
import type { PoolExplanation, ReservationExplanation } from "./reservation.ts";
import type { DemandScaling } from "./scaled-node.ts";
import { isFinished, phaseOf, type Work } from "./work.ts";

/** Why something is where it is: a stable word, one sentence, and what can be done. */
export type Explanation = {
  /** A word of the kind, or the ledger's for why the reservation waits. */
  readonly code: string;
  readonly message: string;
  /** Empty when there is nothing to do but wait. */
  readonly next: string;
};

/** What can be done about a reservation that waits. */
export function adviceFor({ code, pools }: Pick<ReservationExplanation, "code" | "pools">): string {
  if (code === "POOLS_NOT_KNOWN_YET") return "wait until the watcher has listed the nodes; `muster doctor` checks it";
  if (code === "CONCURRENCY_LIMIT")
    return "wait, or let more sessions hold machines at once: SESSION_EXECUTORS of the session controller";
  const [broken] = pools.filter(({ unusable }) => unusable > 0);
  if (broken === undefined) return "";
  return `mend the ${plural(broken.unusable, "unusable node")} of pool ${broken.pool}`;
}

/** Whether further nodes would help, and are made where work needs them. */
export function waitsForNodes({ code, pools }: ReservationExplanation): boolean {
  return code !== "" && code !== "CONCURRENCY_LIMIT" && pools.some(({ elasticMax }) => elasticMax > 0);
}

/** A pod that has outlived its work, and keeps a machine: `owner` is `KIND/ID` of the ledger, `pod` is `NAMESPACE/NAME`, `node` is empty while it has none. */
export type PodLeft = { readonly owner: string; readonly name: string; readonly pod: string; readonly node: string };

/** Why machines are held for work that is gone; undefined where no pod is left of it. */
export function explainPodsLeft(left: readonly PodLeft[]): Explanation | undefined {
  if (left.length === 0) return undefined;
  const places = left.map(({ pod, node }) => `pod ${pod} is still on ${node === "" ? "its way to a machine" : node}`);
  const message = `its job is gone; ${plain(places.join(", "))}: delete it`;
  return { code: "JOB_GONE", message, next: deletionOf(left) };
}

/** The explanation of who waits, and which of those that have the machines are gone: their pods are for people to delete. */
export function withGoneHolders(
  explanation: Explanation,
  reservation: ReservationExplanation | undefined,
  left: readonly PodLeft[],
): Explanation {
  const holders = reservation?.pools.flatMap((pool) => pool.holders.map(({ owner }) => owner)) ?? [];
  // What it has by a single member has an id of its own.
  const inTheWay = left.filter(({ owner }) => holders.some((each) => each === owner || each.startsWith(`${owner}--`)));
  if (reservation === undefined || reservation.code === "" || inTheWay.length === 0) return explanation;
  const gone = inTheWay.map(({ owner, pod }) => `${owner} is gone, and its pod ${pod} still keeps a machine`);
  const next = [deletionOf(inTheWay), explanation.next].filter((part) => part !== "").join("; ");
  return { ...explanation, message: `${explanation.message}; ${plain(gone.join(", "))}`, next };
}

function deletionOf(left: readonly PodLeft[]): string {
  return plain(left.map(({ pod }) => `kubectl delete pod -n ${pod.replace("/", " ")}`).join("; "));
}

export function because(code: string, message: string): Explanation {
  return { code, message, next: "" };
}

/** The explanation for people: the sentence, then who has what of each pool that it waits for. */
export function buildExplanation(
  explained: {
    readonly work: Work;
    readonly explanation: Explanation;
    readonly reservation: ReservationExplanation | undefined;
    readonly scaling: DemandScaling | undefined;
  },
  nowMs: number,
  style: TableStyle,
): string[] {
  const { work, explanation, reservation, scaling } = explained;
  const { code, message, next } = explanation;
  const phase = phaseOf(work);
  const since = work.events.at(-1)?.atMs ?? work.createdAtMs;
  const state = `${paint(phase, colourOf(phase), style.colours)} ${isFinished(work) ? "since" : "for"} ${formatElapsed(nowMs - since, work.resolution)}`;
  return [
    `${work.kind} ${work.name} ${state}: ${code}`,
    `  ${message}`,
    ...scalingLines(scaling, reservation?.pools ?? [], nowMs),
    ...(next === "" ? [] : [`next: ${next}`]),
    ...(reservation === undefined || isFinished(work) ? [] : buildReservationPart(reservation, nowMs, style)),
  ];
}

function scalingLines(
  scaling: DemandScaling | undefined,
  pools: readonly PoolExplanation[],
  nowMs: number,
): readonly string[] {
  if (scaling === undefined) return [];
  const silence = describeSilence(pools, nowMs);
  return [describeScaling(scaling, nowMs), ...(silence === undefined ? [] : [`nodes: ${silence}`])];
}

/** The same of what holds or wants machines and is no session: all that is known of it is its reservation. */
export function buildOwnerExplanation(
  explained: ReservationExplanation,
  scaling: DemandScaling | undefined,
  nowMs: number,
  style: TableStyle,
): string[] {
  const { code, message, next } = explainOwner(explained);
  const { ownerKind, ownerId, grantedAtMs, createdAtMs, machines } = explained.reservation;
  const state = paint(explained.reservation.state, colourOf(explained.reservation.state), style.colours);
  const rows = machines.map(({ component, pool, node }) => [component, pool, node]);
  return [
    `${ownerKind}/${ownerId} ${state} for ${formatElapsed(nowMs - (grantedAtMs ?? createdAtMs))}: ${code}`,
    `  ${message}`,
    ...scalingLines(scaling, explained.pools, nowMs),
    ...(next === "" ? [] : [`next: ${next}`]),
    ...(rows.length === 0 ? [] : ["", ...buildTable(["COMPONENT", "POOL", "NODE"], rows, style)]),
    ...buildReservationPart(explained, nowMs, style),
  ];
}

/** Why the reservation is where it is: GRANTED, or the ledger's word for why it waits. */
export function explainOwner(explained: ReservationExplanation): Explanation {
  const { code, message, reservation } = explained;
  if (code === "") return because("GRANTED", `it holds ${plural(reservation.machines.length, "machine")}`);
  return { code, message: plain(message), next: adviceFor(explained) };
}

function buildReservationPart(reservation: ReservationExplanation, nowMs: number, style: TableStyle): string[] {
  const { pools, place, hold, concurrency } = reservation;
  if (reservation.code === "") return [];
  const elastic = pools.some(({ elasticMax }) => elasticMax > 0);
  const header = ["POOL", "NEEDED", "FREE", "KEPT", "CAPACITY", "HELD", "UNUSABLE", ...(elastic ? ["MAX"] : [])];
  const rows = pools.map((pool) => [
    pool.pool,
    ...[pool.requested, pool.available, pool.kept, pool.capacity, pool.held, pool.unusable].map(String),
    ...(elastic ? [pool.elasticMax === 0 ? "-" : String(pool.elasticMax)] : []),
  ]);
  const users: readonly Cell[][] = pools.flatMap((pool) => buildUsers(pool, nowMs));
  const ahead = place.byPriority.map(({ priority, requests }) => `${requests} of priority ${priority}`).join(", ");
  return [
    "",
    ...buildTable(header, rows, style),
    ...(users.length === 0 ? [] : ["", ...buildTable(["POOL", "USED BY", "MACHINES", "SINCE", "HOW"], users, style)]),
    "",
    `queue: ${plural(place.ahead, "request")} ahead${ahead === "" ? "" : ` (${ahead})`}`,
    ...(hold === undefined
      ? []
      : [
          hold.own
            ? `hold: machines that come free are kept for this ${reservation.reservation.ownerKind}`
            : `hold: machines that come free are kept for ${hold.owner}, which has waited for ${formatElapsed(nowMs - hold.waitingSinceMs)}`,
        ]),
    ...(concurrency === undefined
      ? []
      : [`limit: ${concurrency.granted} of ${concurrency.limit} running: ${listed(concurrency.holders)}`]),
  ];
}

function buildUsers(pool: PoolExplanation, nowMs: number): Cell[][] {
  const holders = pool.holders.map(({ owner, machines, sinceMs }): Cell[] => [
    pool.pool,
    owner,
    String(machines),
    formatElapsed(nowMs - sinceMs),
    "holds",
  ]);
  const broken = pool.unusableNodes.map(({ node, reason, occupant }): Cell[] => [
    pool.pool,
    occupant === "" ? "-" : occupant,
    "1",
    "-",
    { text: `${reason} ${node}`, colour: "yellow" },
  ]);
  const more = [
    ...(pool.holdersMore > 0 ? [[pool.pool, `and ${plural(pool.holdersMore, "more owner")}`, "", "", ""]] : []),
    ...(pool.unusableMore > 0 ? [[pool.pool, `and ${plural(pool.unusableMore, "more node")}`, "", "", ""]] : []),
  ];
  return [...holders, ...broken, ...more];
}

function listed(holders: readonly { readonly owner: string }[]): string {
  return holders.map(({ owner }) => owner).join(", ");
}
