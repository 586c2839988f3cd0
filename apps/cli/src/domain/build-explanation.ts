import { formatElapsed } from "./duration.ts";
import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { colourOf, paint } from "./paint.ts";
import { plural } from "./plural.ts";
import type { PoolExplanation, ReservationExplanation } from "./reservation.ts";
import { endOf, isFinished, phaseOf, type Session } from "./session.ts";

/** Why a session is where it is: a stable word, one sentence, and what can be done. */
export type Explanation = {
  /** FINISHED, CANCELLING, NOT_TAKEN_YET, COMPONENTS_NOT_READY, RUNNING, CLEANING_UP, or the ledger's word for why the reservation waits. */
  readonly code: string;
  readonly message: string;
  /** Empty when there is nothing to do but wait. */
  readonly next: string;
};

/** `reservation` is undefined where the ledger holds none for the session. */
export function explainSession(session: Session, reservation: ReservationExplanation | undefined): Explanation {
  const end = endOf(session);
  if (end !== undefined) return explainEnd(session, `${end.reason} ${end.description}`.trim());
  const waits = plain(session.waitingBecause);
  if (session.cancelRequested) {
    return because("CANCELLING", `its cancellation is under way${waits === "" ? "" : `: ${waits}`}`);
  }
  switch (phaseOf(session)) {
    case "QUEUE":
      return explainQueue(waits, reservation);
    case "ACCEPT":
    case "PROVISION":
      return because("COMPONENTS_NOT_READY", waits === "" ? "its pods are being started" : waits);
    default:
      return waits === ""
        ? because("RUNNING", "its driver runs; the session ends when the driver does")
        : because("CLEANING_UP", waits);
  }
}

function explainEnd(session: Session, why: string): Explanation {
  const phase = phaseOf(session);
  if (phase === "DONE") return because("FINISHED", "it is over: the driver ended with 0");
  return { ...because("FINISHED", `it is over, ${phase}: ${plain(why)}`), next: `muster logs ${session.name}` };
}

function explainQueue(waits: string, reservation: ReservationExplanation | undefined): Explanation {
  if (reservation === undefined || reservation.code === "") {
    return because("NOT_TAKEN_YET", waits === "" ? "no executor has asked for its machines yet" : waits);
  }
  return { code: reservation.code, message: plain(reservation.message), next: adviceFor(reservation) };
}

function adviceFor({ code, pools }: ReservationExplanation): string {
  if (code === "POOLS_NOT_KNOWN_YET") return "wait until the watcher has listed the nodes; `muster doctor` checks it";
  const [broken] = pools.filter(({ unusable }) => unusable > 0);
  if (broken === undefined || code === "CONCURRENCY_LIMIT") return "";
  return `mend the ${plural(broken.unusable, "unusable node")} of pool ${broken.pool}`;
}

function because(code: string, message: string): Explanation {
  return { code, message, next: "" };
}

/** The explanation for people: the sentence, then who has what of each pool that the session waits for. */
export function buildExplanation(
  session: Session,
  reservation: ReservationExplanation | undefined,
  nowMs: number,
  style: TableStyle,
): string[] {
  const { code, message, next } = explainSession(session, reservation);
  const phase = phaseOf(session);
  const since = session.events.at(-1)?.atMs ?? session.createdAtMs;
  const state = `${paint(phase, colourOf(phase), style.colours)} ${isFinished(session) ? "since" : "for"} ${formatElapsed(nowMs - since)}`;
  return [
    `session ${session.name} ${state}: ${code}`,
    `  ${message}`,
    ...(next === "" ? [] : [`next: ${next}`]),
    ...(reservation === undefined || isFinished(session) ? [] : buildReservationPart(reservation, nowMs, style)),
  ];
}

/** The same of what holds or wants machines and is no session: all that is known of it is its reservation. */
export function buildOwnerExplanation(explained: ReservationExplanation, nowMs: number, style: TableStyle): string[] {
  const { code, message, next } = explainOwner(explained);
  const { ownerKind, ownerId, grantedAtMs, createdAtMs, machines } = explained.reservation;
  const state = paint(explained.reservation.state, colourOf(explained.reservation.state), style.colours);
  const rows = machines.map(({ component, pool, node }) => [component, pool, node]);
  return [
    `${ownerKind}/${ownerId} ${state} for ${formatElapsed(nowMs - (grantedAtMs ?? createdAtMs))}: ${code}`,
    `  ${message}`,
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
  const header = ["POOL", "NEEDED", "FREE", "KEPT", "CAPACITY", "HELD", "UNUSABLE"];
  const rows = pools.map((pool) => [
    pool.pool,
    ...[pool.requested, pool.available, pool.kept, pool.capacity, pool.held, pool.unusable].map(String),
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
