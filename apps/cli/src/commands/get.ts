import { faultOf, unlessMissing } from "@muster/faults";
import { demandScaling, scalerDump } from "../adapters/node-calls.ts";
import type { MusterServices } from "../adapters/muster-services.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import {
  buildDescription,
  buildPoolTable,
  buildReservationTable,
  buildWorkRecord,
  buildWorkTable,
  type ShownPool,
} from "../domain/build-views.ts";
import { describeSilence } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import {
  buildExplanation,
  buildOwnerExplanation,
  explanationRecord,
  explainOwner,
  waitsForNodes,
} from "../domain/build-explanation.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { isLeaseWord, LEASE_NOUN } from "../domain/lease-document.ts";
import { listSome } from "../domain/list-some.ts";
import { nearestName } from "@muster/documents";
import { orderReservations } from "../domain/order-reservations.ts";
import { readOwner } from "../domain/owner.ts";
import { isSetWord, SET_NOUN } from "../domain/replica-set.ts";
import type { Pool, ReservationExplanation } from "../domain/reservation.ts";
import type { DemandScaling } from "../domain/scaled-node.ts";
import { isFinished, phaseOf } from "../domain/work.ts";
import type { Kind, Link } from "../kinds/kind.ts";
import { findKind, type Target } from "../kinds/kinds.ts";
import { askOfName, kindOfName } from "./find-work.ts";
import { explainLeaseOf, findLeaseOrOwner } from "./explain-lease.ts";
import { askOfSet } from "./farm-questions.ts";
import { print, type Format } from "./output.ts";
import { explainReplicaSet } from "./replica-sets.ts";
import { oneOf, refuseLease } from "./target.ts";

/** `muster get KIND [NAME]` */
export async function getWork(cli: Cli, { kind, name }: Target, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const calls = kind.calls(connected.link);
  const all = name === undefined ? await calls.list() : [await calls.get(name)];
  all.sort((a, b) => a.createdAtMs - b.createdAtMs || a.name.localeCompare(b.name));
  print(cli.io, format, {
    table: (style) => (all.length === 0 ? [`no ${kind.plural}`] : buildWorkTable(all, cli.now(), style)),
    data: () => oneOrAll(name, all.map(buildWorkRecord)),
  });
  return EXIT.ok;
}

const POOLS_NAMED_MAX = 20;

/** `muster get pools [NAME]` */
export async function getPools(cli: Cli, name: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const all = await withScaling(connected, await connected.services.pools());
  const pools = name === undefined ? all : all.filter((pool) => pool.name === name);
  if (name !== undefined && pools.length === 0) {
    const names = all.map((pool) => pool.name);
    const near = nearestName(name, names);
    const known = names.length === 0 ? "there are no pools" : `known pools: ${listSome(names, POOLS_NAMED_MAX, ",")}`;
    throw new CommandError(EXIT.refused, `pool ${name} does not exist`, {
      hint: near === undefined ? known : `did you mean "${near}"?`,
    });
  }
  print(cli.io, format, {
    table: (style) => (pools.length === 0 ? ["no pools"] : buildPoolTable(pools, cli.now(), style)),
    data: () => oneOrAll(name, pools.map(buildRecord)),
  });
  const [unanswered] = pools.flatMap(({ scaling }) => scaling?.trouble ?? []);
  if (unanswered !== undefined) cli.io.err([`note: the node scaler does not answer: ${unanswered}`]);
  const silence = describeSilence(pools, cli.now());
  if (silence !== undefined) cli.io.err([`note: ${silence}`]);
  return EXIT.ok;
}

/** The pools, and of those that may grow what is made. */
async function withScaling({ link }: Connected, pools: readonly Pool[]): Promise<ShownPool[]> {
  const elastic = pools.some(({ elasticMax }) => elasticMax > 0);
  if (!elastic) return pools.map((pool) => ({ ...pool, scaling: undefined }));
  const dump = await scalerDump(link);
  return pools.map((pool) => {
    if (pool.elasticMax === 0) return { ...pool, scaling: undefined };
    if ("trouble" in dump) return { ...pool, scaling: { ...dump, troubles: [] } };
    const scaling = dump.value.pools.find((one) => one.pool === pool.name);
    const troubles = dump.value.troubles.filter((trouble) => trouble.pool === pool.name);
    return { ...pool, scaling: { trouble: undefined, troubles, ...scaling } };
  });
}

/** `muster get reservations [OWNER]`; the owner is `KIND/ID`, or the id of a session. */
export async function getReservations(cli: Cli, owner: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const slash = owner?.indexOf("/") ?? -1;
  const reservations =
    owner === undefined
      ? orderReservations(await connected.services.reservations())
      : [await connected.services.reservation(slash < 0 ? "session" : owner.slice(0, slash), owner.slice(slash + 1))];
  print(cli.io, format, {
    table: (style) =>
      reservations.length === 0 ? ["no reservations"] : buildReservationTable(reservations, cli.now(), style),
    data: () => oneOrAll(owner, reservations.map(buildRecord)),
  });
  return EXIT.ok;
}

/** `muster describe KIND NAME` */
export async function describeWork(cli: Cli, kind: Kind, name: string, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const calls = kind.calls(connected.link);
  const now = await calls.get(name);
  // What is there is told though nobody can say what was.
  const work = (await unlessFault(calls.recall?.(now))) ?? now;
  print(cli.io, format, {
    table: (style) => buildDescription(work, cli.now(), style),
    data: () => buildWorkRecord(work),
  });
  return EXIT.ok;
}

/** `muster cancel NAME` */
export async function cancelWork(cli: Cli, target: string, format: Format): Promise<ExitCode> {
  refuseLease(target, "a lease is not cancelled", (id) => `\`muster lease end ${id}\` ends it, for good`);
  const { kind: meant, name } = oneOf(cli, target);
  await using connected = await cli.connect();
  const kind = target.includes("/") ? meant : await kindOfName(cli, connected, name);
  const work = await kind.calls(connected.link).cancel(name);
  print(cli.io, format, {
    table: () => [
      work.finishedAtMs === undefined
        ? `${kind.noun} ${name} is being cancelled; \`muster describe ${kind.noun} ${name}\` shows how far it is`
        : `${kind.noun} ${name} was over already: nothing changed`,
    ],
    data: () => buildWorkRecord(work),
  });
  return EXIT.ok;
}

/** `muster delete session/NAME`: deletes work that is over, of a kind whose service does that. */
export async function deleteWork(cli: Cli, kind: Kind, name: string, format: Format): Promise<ExitCode> {
  const target = `${kind.noun}/${name}`;
  if (kind.remove === undefined)
    throw new CommandError(EXIT.usage, `a ${kind.noun} is not deleted`, {
      hint: `\`muster cancel ${target}\` ends it; once it is over, ${kind.goneBy(name)}`,
    });
  await using connected = await cli.connect();
  const work = await kind.calls(connected.link).get(name);
  if (!isFinished(work))
    throw new CommandError(EXIT.refused, `${kind.noun} ${name} is not over: it is ${phaseOf(work)}`, {
      hint: `\`muster cancel ${target}\` ends it; then delete it`,
    });
  await kind.remove(connected.link, work);
  print(cli.io, format, { table: () => [`${kind.noun} ${name} is deleted`], data: () => buildWorkRecord(work) });
  return EXIT.ok;
}

/** `muster explain NAME`: of work that the command knows why it is where it is; of any other owner what the ledger knows of its machines. */
export async function explain(cli: Cli, text: string, format: Format): Promise<ExitCode> {
  const slash = text.indexOf("/");
  const word = text.slice(0, Math.max(0, slash));
  const isSet = isSetWord(word);
  const noun = isSet ? SET_NOUN : isLeaseWord(word) ? LEASE_NOUN : undefined;
  const owner = readOwner(
    noun === undefined ? text : `${noun}${text.slice(slash)}`,
    cli.kinds.map(({ noun }) => noun),
  );
  if ("trouble" in owner) throw new CommandError(EXIT.usage, owner.trouble);
  await using connected = await cli.connect();
  if (isSet) return await explainSetOrOwner(cli, connected, owner, format);
  if (owner.kind === LEASE_NOUN) return await explainLeaseOrOwner(cli, connected, owner, format);
  const kind = findKind(cli.kinds, owner.kind);
  if (kind === undefined) await explainReservation(cli, connected, owner, format);
  else await askOfName(cli, connected, text, () => explainWork(cli, connected, kind, owner.id, format));
  return EXIT.ok;
}

/** The ledger knows the machines of a set by names of their own. */
async function explainSetOrOwner(
  cli: Cli,
  connected: Connected,
  owner: { readonly kind: string; readonly id: string },
  format: Format,
): Promise<ExitCode> {
  const code = await explainReplicaSet(cli, connected, owner.id, format);
  if (code !== undefined) return code;
  if ((await explanationOf(connected.services, owner.kind, owner.id)) === undefined)
    await askOfSet(connected, owner.id, (farms) => farms.get(owner.id));
  await explainReservation(cli, connected, owner, format);
  return EXIT.ok;
}

/** The ledger knows the machines of a lease by names of their own. */
async function explainLeaseOrOwner(
  cli: Cli,
  connected: Connected,
  owner: { readonly kind: string; readonly id: string },
  format: Format,
): Promise<ExitCode> {
  const found = await findLeaseOrOwner(connected, owner.id);
  if (found !== undefined && "lease" in found) await explainLeaseOf(cli, connected, found.lease, format);
  else await printReservation(cli, connected, owner, { reservation: found?.reservation, format });
  return EXIT.ok;
}

async function explainWork(cli: Cli, connected: Connected, kind: Kind, name: string, format: Format): Promise<void> {
  try {
    const explained = await kind.explain(connected.link, name);
    print(cli.io, format, {
      table: (style) => buildExplanation(explained, cli.now(), style),
      data: () => explanationRecord(explained),
    });
  } catch (error) {
    if (faultOf(error)?.code !== "not_found" || kind.hasOwnerIds !== true) throw error;
    const reservation = await explanationOf(connected.services, kind.noun, name);
    if (reservation === undefined) throw error;
    await printReservation(cli, connected, { kind: kind.noun, id: name }, { reservation, format });
  }
}

/** Undefined in place of a fault. */
async function unlessFault<Answer>(answer: Promise<Answer> | undefined): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return undefined;
  }
}

async function explainReservation(
  cli: Cli,
  { services, link }: Connected,
  { kind, id }: { readonly kind: string; readonly id: string },
  format: Format,
): Promise<void> {
  const reservation = await explanationOf(services, kind, id);
  await printReservation(cli, { link }, { kind, id }, { reservation, format });
}

async function printReservation(
  cli: Cli,
  { link }: Pick<Connected, "link">,
  { kind, id }: { readonly kind: string; readonly id: string },
  { reservation, format }: { readonly reservation: ReservationExplanation | undefined; readonly format: Format },
): Promise<void> {
  if (reservation === undefined) {
    throw new CommandError(EXIT.refused, `${kind} ${id} holds no machines and waits for none`, {
      hint: "`muster get reservations` shows who does",
    });
  }
  const scaling = await scalingFor(link, reservation);
  print(cli.io, format, {
    table: (style) => buildOwnerExplanation(reservation, scaling, cli.now(), style),
    data: () => buildRecord({ owner: `${kind}/${id}`, ...explainOwner(reservation), reservation, scaling }),
  });
}

/** What the node scaler does about it; undefined where that is not its business. */
async function scalingFor(
  link: Link,
  explained: ReservationExplanation | undefined,
): Promise<DemandScaling | undefined> {
  if (explained === undefined || !waitsForNodes(explained)) return undefined;
  const { ownerKind: kind, ownerId: id } = explained.reservation;
  return demandScaling(link, { kind, id });
}

/** Undefined before somebody has asked for machines, and after they were given back: the ledger knows nothing of the owner then. */
function explanationOf(
  services: MusterServices,
  ownerKind: string,
  ownerId: string,
): Promise<ReservationExplanation | undefined> {
  return unlessMissing(services.explanation(ownerKind, ownerId));
}

/** With a name the thing itself, without one the list of all. */
function oneOrAll(name: string | undefined, list: readonly unknown[]): unknown {
  return name === undefined ? list : list[0];
}
