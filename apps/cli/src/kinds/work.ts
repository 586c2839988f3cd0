import { findFault, unlessMissing } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { printLine } from "../commands/output.ts";
import { readQueueWait } from "../commands/read-queue-wait.ts";
import {
  buildEventLine,
  buildEventRecord,
  buildEventTable,
  orderEvents,
  type NamedEvent,
} from "../domain/build-events.ts";
import { buildExplanation, buildExplanationRecord } from "../domain/build-explanation.ts";
import { buildDescription, buildWorkRecord, buildWorkTable } from "../domain/build-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { decideWait, describeWork } from "../domain/decide-wait.ts";
import { isFinished, getWorkPhase, type Work } from "../domain/work.ts";
import type { WorkKind, WorkCalls } from "./kind.ts";
import type { EventLog, EventQuery, ResourceRow } from "./resource.ts";

/** A follower reads all events again at this interval, because hints may be lost. */
const EVENTS_POLL_MS = 10_000;

/** Builds the row of a kind of work, such as sessions or jobs. */
export function makeWorkResource(kind: WorkKind): ResourceRow<Work> & { readonly work: WorkKind } {
  const { noun, plural, schema } = kind;
  return {
    noun,
    plural,
    work: kind,
    ...(kind.missing !== undefined && { missing: kind.missing }),
    none: `no ${plural}`,
    get: ({ link }, name) => kind.calls(link).get(name),
    list: async ({ link }, selector) =>
      (await kind.calls(link).list(selector)).sort(
        (a, b) => a.createdAtMs - b.createdAtMs || a.name.localeCompare(b.name),
      ),
    nameOf: ({ name }) => name,
    table: (works, { nowMs, style }) => buildWorkTable(works, nowMs, style),
    record: buildWorkRecord,
    describe: (work, { nowMs, style }) => buildDescription(work, nowMs, style),
    getWhole: ({ link }, name) => recallWork(kind.calls(link), name),
    waiting: {
      conditions: kind.conditions,
      decide: decideWait,
      next: ({ link }, seen, signal) => kind.calls(link).after(seen, signal),
      isLongPoll: true,
      uidOf: ({ uid }) => uid,
      describe: describeWork,
      explained: (work) => work,
    },
    events: eventsOf(kind),
    explain: async (cli, { link, services }, name) => {
      const explained = await kind.explain(link, name);
      const queue = await readQueueWait({ services }, explained.reservation);
      return {
        table: (style) => buildExplanation(explained, cli.now(), style, queue),
        data: () => buildExplanationRecord(explained, queue),
      };
    },
    ...(kind.hasOwnerIds && { hasOwnerIds: true }),
    ...(kind.hasLabels && { hasLabels: true }),
    delete: async (cli, name, { force, keepPods, output }) => {
      if (force || keepPods)
        throw new CommandError(
          EXIT.usage,
          `--force and --orphan are for replica sets: a ${noun} that is over has no pods`,
        );
      const target = `${noun}/${name}`;
      if (kind.remove === undefined)
        throw new CommandError(EXIT.usage, `a ${noun} cannot be deleted`, {
          hint: `\`muster cancel ${target}\` ends it; once it is over, ${kind.goneBy(name)}`,
        });
      await using connected = await cli.connect();
      const work = await kind.calls(connected.link).get(name);
      if (!isFinished(work))
        throw new CommandError(EXIT.refused, `${noun} ${name} is not over: it is ${getWorkPhase(work)}`, {
          hint: `\`muster cancel ${target}\` ends it; then delete it`,
        });
      await kind.remove(connected.link, work);
      printLine(cli.io, output, `${noun} ${name} is deleted`, () => buildWorkRecord(work));
      return EXIT.ok;
    },
    ...(schema && { schema: { word: noun, build: schema } }),
  };
}

/** Reads work with the earlier phases from its history, as far as a service still knows them. */
async function recallWork(calls: WorkCalls, name: string): Promise<Work> {
  const work = await calls.get(name);
  try {
    return (await calls.recall?.(work)) ?? work;
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return work;
  }
}

function eventsOf(kind: WorkKind): EventLog<NamedEvent> {
  return {
    ofAll: true,
    pollMs: EVENTS_POLL_MS,
    read: async ({ link }, query) => {
      const works = await readWorks(kind.calls(link), query);
      return { events: orderEvents(works), isOver: query.name !== undefined && works.some(isFinished) };
    },
    onEvent: ({ link }, listener, name) => kind.calls(link).onEvent(listener, name),
    keyOf: ({ uid, event: { phase, atMs, reason, description } }) =>
      JSON.stringify([uid, phase, atMs, reason, description]),
    none: () => "no events",
    table: buildEventTable,
    line: buildEventLine,
    record: buildEventRecord,
  };
}

/** Reads all events of one item; of a list only the events in the states, because the rest takes a call for each item. */
async function readWorks(calls: WorkCalls, { name, changed }: EventQuery): Promise<readonly Work[]> {
  const readOne = async (each: string): Promise<Work> => {
    const work = await calls.get(each);
    return name === undefined || calls.events === undefined ? work : { ...work, events: await calls.events(work) };
  };
  if (changed === undefined) return name === undefined ? calls.list() : [await readOne(name)];
  const works = await Promise.all(changed.map((each) => unlessMissing(readOne(each))));
  return works.filter((work) => work !== undefined);
}
