import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import type { AuditRecord, Explanation, JobEvent, LeaseEvent, Session, SetExplanation } from "../adapters/messages.ts";
import { askJson } from "../adapters/request.ts";
import { logPath, workPath } from "../adapters/work-calls.ts";
import { describeRepeats, formatAge, formatTime } from "../domain/describe.ts";
import { flattenResult, type ResultValue } from "../domain/flatten-result.ts";
import {
  timelineOfComponents,
  timelineOfJob,
  timelineOfLease,
  timelineOfMembers,
  timelineOfSession,
  timelineOfSet,
} from "../domain/timeline.ts";
import { timeOf, type WorkItem } from "../domain/work.ts";
import { CaptionedTable, type CaptionedColumn } from "./captioned-table.tsx";
import { DocumentView } from "./document-view.tsx";
import { ExplanationView } from "./explanation-view.tsx";
import { LogView } from "./log-view.tsx";
import { Timeline } from "./timeline.tsx";

/** Poll interval of events and explanations, which change without a change of the work. */
const POLL_MS = 5000;

type TabParts = {
  readonly of: WorkItem;
  readonly id: string;
  readonly type: string;
  readonly version: string;
  readonly nowMs: number;
};

export function StatusTab(parts: TabParts): ReactNode {
  const { of, nowMs } = parts;
  const events = useEvents(parts);
  return (
    <>
      {of.kind === "session" && (
        <>
          <Outcome session={of.item} />
          <Timeline label="Phases" bars={timelineOfSession(of.item, nowMs)} />
          <Timeline label="Steps of components" bars={timelineOfComponents(of.item, nowMs)} />
        </>
      )}
      {of.kind === "job" && (
        <>
          <Timeline label="Phases" bars={timelineOfJob(of.item, events?.job ?? [], nowMs)} />
          <Timeline label="Members" bars={timelineOfMembers(events?.job ?? [], of.item, nowMs)} />
        </>
      )}
      {of.kind === "replica-set" && <Timeline label="Replicas" bars={timelineOfSet(of.item, nowMs)} />}
      {of.kind === "lease" && <Timeline label="Phases" bars={timelineOfLease(of.item, events?.lease ?? [], nowMs)} />}
      <Members of={of} />
    </>
  );
}

/** The result of the driver, and the errors at the end. */
function Outcome({ session: { resultJson, warnings } }: { readonly session: Session }): ReactNode {
  return (
    <>
      {warnings.map(({ code, message }) => (
        <p key={code} className="notice warn">
          <code>{code}</code> {message}
        </p>
      ))}
      {resultJson !== "" && (
        <CaptionedTable
          caption="Result"
          rows={flattenResult(resultJson)}
          columns={RESULT_COLUMNS}
          rowKey={({ name }) => name}
        />
      )}
    </>
  );
}

const RESULT_COLUMNS: readonly CaptionedColumn<ResultValue>[] = [
  { header: "Name", isHeading: true, cell: ({ name }) => name },
  { header: "Value", cell: ({ value }) => value },
];

type Member = {
  readonly name: string;
  readonly state: string;
  readonly pool: string;
  readonly node: string;
  readonly pod: string;
  readonly message: string;
};

/** Returns the components of a session, the members of a job, or the replicas of a set. */
function membersOf({ kind, item }: WorkItem): readonly Member[] {
  switch (kind) {
    case "session":
      return item.components;
    case "job":
      return item.members.map((member) => ({ ...member, name: member.component }));
    case "replica-set":
      return item.replicas.map(({ pod, node, health = "", message }) => {
        const { pool = "" } = item.record?.spec ?? {};
        return { name: pod, state: health, pool, node, pod, message };
      });
    case "lease":
      return [];
  }
}

function Members({ of }: { readonly of: WorkItem }): ReactNode {
  const members = membersOf(of);
  if (members.length === 0) return null;
  return (
    <CaptionedTable
      caption="Parts"
      rows={members}
      columns={MEMBER_COLUMNS}
      rowKey={({ name, node }) => `${name}/${node}`}
    />
  );
}

const MEMBER_COLUMNS: readonly CaptionedColumn<Member>[] = [
  { header: "Name", isHeading: true, cell: ({ name }) => name },
  { header: "State", cell: ({ state }) => state },
  { header: "Pool", cell: ({ pool }) => pool },
  { header: "Node", cell: ({ node }) => node },
  { header: "Pod", cell: ({ pod }) => pod },
  { header: "Message", cell: ({ message }) => message },
];

/** Returns names of the parts that have logs. */
export function componentsOf({ kind, item }: WorkItem): readonly string[] {
  if (kind === "session") return item.components.map(({ name }) => name);
  return kind === "job" ? item.members.map(({ component }) => component) : [];
}

export function LogsTab({ of, id, type }: TabParts): ReactNode {
  const components = componentsOf(of);
  const driver = of.kind === "session" ? of.item.components.find(({ kind }) => kind === "DRIVER")?.name : undefined;
  const [chosen, setChosen] = useState(driver ?? components[0] ?? "");
  return (
    <>
      <label className="field-label">
        <span>Component</span>
        <select value={chosen} onChange={({ target }) => setChosen(target.value)}>
          {components.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <LogView key={chosen} path={logPath(of.kind, id, chosen, type)} label={chosen} />
    </>
  );
}

type Happened = { readonly atMs: number; readonly what: string; readonly object: string; readonly message: string };

type Events = {
  readonly job?: readonly JobEvent[];
  readonly lease?: readonly LeaseEvent[];
  readonly all: readonly Happened[];
};

function useEvents({ of, id, type, version }: TabParts): Events | undefined {
  const { data } = useQuery({
    queryKey: ["events", of.kind, id, type, version],
    queryFn: ({ signal }) => readEvents(of, id, type, signal),
    refetchInterval: POLL_MS,
    placeholderData: (before) => before,
  });
  return data;
}

async function readEvents(of: WorkItem, id: string, type: string, signal: AbortSignal): Promise<Events> {
  const path = workPath(of.kind, id, "events", type);
  switch (of.kind) {
    case "session":
      return {
        all: of.item.events.map(({ kind = "", atMs, description, reason }) => ({
          atMs,
          what: kind,
          object: reason,
          message: description,
        })),
      };
    case "job": {
      const { events: job } = await askJson<{ readonly events: readonly JobEvent[] }>(path, { signal });
      const all = job.map((event) => {
        const { atMs, reason, object, message } = event;
        return { atMs, what: reason, object, message: `${message}${describeRepeats(event)}` };
      });
      return { job, all };
    }
    case "lease": {
      const { events: lease } = await askJson<{ readonly events: readonly LeaseEvent[] }>(path, { signal });
      return {
        lease,
        all: lease.map(({ at, eventType, message }) => ({ atMs: timeOf(at), what: eventType, object: "", message })),
      };
    }
    case "replica-set": {
      const { records } = await askJson<{ readonly records: readonly AuditRecord[] }>(path, { signal });
      const all = records.map(({ timestampMs, eventType, eventDetails }) => ({
        atMs: timestampMs,
        what: eventType,
        object: "",
        message: eventDetails,
      }));
      return { all };
    }
  }
}

export function EventsTab(parts: TabParts): ReactNode {
  const events = useEvents(parts);
  if (events === undefined) return <p className="quiet">Loading…</p>;
  if (events.all.length === 0) return <p className="quiet">No events are kept.</p>;
  // Of events with one time, the last event comes first.
  const newest = events.all.toReversed().sort((one, other) => other.atMs - one.atMs);
  return (
    <CaptionedTable
      caption="Events, newest first"
      label="Events"
      rows={newest}
      columns={eventColumns(parts.nowMs)}
      rowKey={({ atMs }, index) => `${atMs}-${index}`}
    />
  );
}

function eventColumns(nowMs: number): readonly CaptionedColumn<Happened>[] {
  return [
    {
      header: "When",
      cell: ({ atMs }) => <time title={formatTime(atMs)}>{formatAge(atMs, nowMs)} ago</time>,
    },
    { header: "What", cell: ({ what }) => what },
    { header: "Of", cell: ({ object }) => object },
    { header: "Message", cell: ({ message }) => message },
  ];
}

export function ExplainTab({ of, id, type, version, nowMs }: TabParts): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["explain", of.kind, id, type, version],
    queryFn: async ({ signal }) => {
      const path = workPath(of.kind, id, "explain", type);
      if (of.kind !== "replica-set") return askJson<Explanation>(path, { signal });
      return (await askJson<SetExplanation>(path, { signal })).explanation;
    },
    refetchInterval: POLL_MS,
    placeholderData: (before) => before,
  });
  if (data) return <ExplanationView explanation={data} nowMs={nowMs} />;
  return <p className="quiet">{error === null ? "Loading…" : error.message}</p>;
}

export function DocumentTab({ of }: TabParts): ReactNode {
  const isManifest = of.kind === "job" && of.item.manifestJson !== "";
  const value: unknown = isManifest ? JSON.parse(of.item.manifestJson) : of.item;
  return <DocumentView value={value} label="Document" />;
}
