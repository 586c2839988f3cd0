import { faultOf } from "@muster/faults";
import type { MusterServices } from "../adapters/muster-services.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import {
  buildDescription,
  buildPoolTable,
  buildReservationRecord,
  buildReservationTable,
  buildSessionRecord,
  buildSessionTable,
} from "../domain/build-views.ts";
import { buildExplanation, buildOwnerExplanation, explainOwner, explainSession } from "../domain/build-explanation.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { nearestName } from "../domain/nearest-name.ts";
import { readOwner } from "../domain/owner.ts";
import type { ReservationExplanation } from "../domain/reservation.ts";
import { isFinished, phaseOf } from "../domain/session.ts";
import { print, type Format } from "./output.ts";

/** `muster get sessions [NAME]` */
export async function getSessions(cli: Cli, name: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const sessions = name === undefined ? await connected.services.sessions() : [await connected.services.session(name)];
  sessions.sort((a, b) => a.createdAtMs - b.createdAtMs || a.name.localeCompare(b.name));
  print(cli.io, format, {
    table: (style) => (sessions.length === 0 ? ["no sessions"] : buildSessionTable(sessions, cli.now(), style)),
    data: () => oneOrAll(name, sessions.map(buildSessionRecord)),
  });
  return EXIT.ok;
}

/** `muster get pools [NAME]` */
export async function getPools(cli: Cli, name: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const all = await connected.services.pools();
  const pools = name === undefined ? all : all.filter((pool) => pool.name === name);
  if (name !== undefined && pools.length === 0) {
    const near = nearestName(
      name,
      all.map((pool) => pool.name),
    );
    throw new CommandError(EXIT.refused, `pool ${name} does not exist`, {
      hint: near === undefined ? "`muster pools` shows the pools and their machines" : `did you mean "${near}"?`,
    });
  }
  print(cli.io, format, {
    table: (style) => (pools.length === 0 ? ["no pools"] : buildPoolTable(pools, style)),
    data: () => oneOrAll(name, pools),
  });
  return EXIT.ok;
}

/** `muster get reservations [OWNER]`; the owner is `KIND/ID`, or the id of a session. */
export async function getReservations(cli: Cli, owner: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const slash = owner?.indexOf("/") ?? -1;
  const reservations =
    owner === undefined
      ? await connected.services.reservations()
      : [await connected.services.reservation(slash < 0 ? "session" : owner.slice(0, slash), owner.slice(slash + 1))];
  print(cli.io, format, {
    table: (style) =>
      reservations.length === 0 ? ["no reservations"] : buildReservationTable(reservations, cli.now(), style),
    data: () => oneOrAll(owner, reservations.map(buildReservationRecord)),
  });
  return EXIT.ok;
}

/** `muster describe session NAME` */
export async function describeSession(cli: Cli, name: string, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const session = await connected.services.session(name);
  print(cli.io, format, {
    table: (style) => buildDescription(session, cli.now(), style),
    data: () => buildSessionRecord(session),
  });
  return EXIT.ok;
}

/** `muster cancel NAME` */
export async function cancelSession(cli: Cli, name: string, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const session = await connected.services.cancel(name);
  print(cli.io, format, {
    table: () => [
      session.finishedAtMs === undefined
        ? `session ${name} is being cancelled; \`muster describe session ${name}\` shows how far it is`
        : `session ${name} was over already: nothing changed`,
    ],
    data: () => buildSessionRecord(session),
  });
  return EXIT.ok;
}

/** `muster explain OWNER` */
export async function explain(cli: Cli, text: string, format: Format): Promise<ExitCode> {
  const owner = readOwner(text);
  if ("trouble" in owner) throw new CommandError(EXIT.usage, owner.trouble);
  await using connected = await cli.connect();
  if (owner.kind === "session") await explainOneSession(cli, connected, owner.id, format);
  else await explainReservation(cli, connected, owner, format);
  return EXIT.ok;
}

async function explainOneSession(cli: Cli, { services }: Connected, name: string, format: Format): Promise<void> {
  const session = await services.session(name);
  const reservation = isFinished(session) ? undefined : await explanationOf(services, "session", name);
  print(cli.io, format, {
    table: (style) => buildExplanation(session, reservation, cli.now(), style),
    data: () => ({ session: name, phase: phaseOf(session), ...explainSession(session, reservation), reservation }),
  });
}

async function explainReservation(
  cli: Cli,
  { services }: Connected,
  { kind, id }: { readonly kind: string; readonly id: string },
  format: Format,
): Promise<void> {
  const reservation = await explanationOf(services, kind, id);
  if (reservation === undefined) {
    throw new CommandError(EXIT.refused, `${kind} ${id} holds no machines and waits for none`, {
      hint: "`muster get reservations` shows who does",
    });
  }
  print(cli.io, format, {
    table: (style) => buildOwnerExplanation(reservation, cli.now(), style),
    data: () => ({ owner: `${kind}/${id}`, ...explainOwner(reservation), reservation }),
  });
}

/** Undefined before somebody has asked for machines, and after they were given back: the ledger knows nothing of the owner then. */
async function explanationOf(
  services: MusterServices,
  ownerKind: string,
  ownerId: string,
): Promise<ReservationExplanation | undefined> {
  try {
    return await services.explanation(ownerKind, ownerId);
  } catch (error) {
    if (faultOf(error)?.code === "not_found") return undefined;
    throw error;
  }
}

/** With a name the thing itself, without one the list of all. */
function oneOrAll(name: string | undefined, list: readonly unknown[]): unknown {
  return name === undefined ? list : list[0];
}
