import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState, type ReactNode } from "react";
import type { Lease, Session } from "../adapters/messages.ts";
import { askJson, RequestError } from "../adapters/request.ts";
import { FEED_OF, workPath } from "../adapters/work-calls.ts";
import { formatAge, formatTime } from "../domain/describe.ts";
import { WORK_KINDS, workOf, type WorkItem, type WorkKind } from "../domain/work.ts";
import { Badge } from "../parts/badge.tsx";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { useMethods } from "../parts/sign-in-gate.tsx";
import { useFeed } from "../parts/use-feed.ts";
import { useNow } from "../parts/use-now.ts";
import { WorkActions } from "../parts/work-actions.tsx";
import { componentsOf, DocumentTab, EventsTab, ExplainTab, LogsTab, StatusTab } from "../parts/work-tabs.tsx";
import { workPageRoute } from "../routes.ts";
import { NotFound } from "./not-found.tsx";

const NOW_MS = 1000;

export function WorkPage(): ReactNode {
  const { kind, _splat: id = "" } = workPageRoute.useParams();
  const known = WORK_KINDS.find((each) => each === kind);
  if (known === undefined || id === "") return <NotFound />;
  return <KnownWork key={`${known}/${id}`} kind={known} id={id} />;
}

function KnownWork({ kind, id }: { readonly kind: WorkKind; readonly id: string }): ReactNode {
  const { type = "" } = workPageRoute.useSearch();
  const feed = useFeed(FEED_OF[kind]);
  const listed = feed.list.find((each) => isSameWork(kind, id, type, each));
  const wasListed = useRef(false);
  if (listed !== undefined) wasListed.current = true;
  // The list only provides the version; the answer about the item has all fields.
  const version = JSON.stringify(listed && revisionOf(kind, listed));
  const { data, error } = useQuery({
    queryKey: ["work", kind, id, type, version],
    queryFn: ({ signal }) => askJson<WorkItem["item"]>(workPath(kind, id, "", type), { signal }),
    placeholderData: (before) => before,
  });
  // The page is complete without the list. A notice that disappears would move buttons during a click.
  const isShown = data === undefined || feed.status !== "loading";
  const notice = <FeedNotice feeds={isShown ? [{ name: FEED_OF[kind], feed }] : []} />;
  if (data === undefined) {
    return (
      <>
        <p>
          <Link to="/workloads">Work</Link> / {kind}
        </p>
        <h1 className="long">{id}</h1>
        {notice}
        {error instanceof RequestError ? (
          <p className="notice bad">{error.message}</p>
        ) : (
          <p className="quiet">Loading…</p>
        )}
      </>
    );
  }
  // This page may show new work before the list contains it.
  const isGone = wasListed.current && listed === undefined && feed.status === "live";
  // The kind in the address determines the type of the answer.
  return (
    <Shown
      of={{ kind, item: data } as WorkItem}
      id={id}
      type={type}
      version={version}
      notice={notice}
      isGone={isGone}
    />
  );
}

type ShownParts = {
  readonly of: WorkItem;
  readonly id: string;
  readonly type: string;
  readonly version: string;
  readonly notice: ReactNode;
  readonly isGone: boolean;
};

const TABS = ["status", "logs", "events", "explanation", "document"] as const;

function Shown({ of, id, type, version, notice, isGone }: ShownParts): ReactNode {
  const nowMs = useNow(NOW_MS);
  const work = workOf(of);
  const [asked, setAsked] = useState<ReactNode>();
  const search = workPageRoute.useSearch();
  const tabs = TABS.filter((each) => each !== "logs" || componentsOf(of).length > 0);
  const tab = tabs.find((each) => each === search.tab) ?? "status";
  const parts = { of, id, type, version, nowMs };
  return (
    <>
      <p>
        <Link to="/workloads">Work</Link> / {of.kind}
      </p>
      <h1 className="long">{work.name}</h1>
      {notice}
      {isGone && <p className="notice">It is not in the list any more. This is how it was last.</p>}
      <p className="facts">
        <Badge stage={work.stage}>{work.state}</Badge>
        {work.createdAtMs > 0 && (
          <span>
            created <time title={formatTime(work.createdAtMs)}>{formatAge(work.createdAtMs, nowMs)}</time> ago
          </span>
        )}
        <TraceLink traceparent={work.traceparent} />
      </p>
      {work.because !== "" && (
        <p className="long">
          {work.code !== "" && <code>{work.code}</code>} {work.because}
        </p>
      )}
      {!isGone && <WorkActions of={of} work={work} path={(part) => workPath(of.kind, id, part, type)} ask={setAsked} />}
      {asked}
      <Tabs tabs={tabs} selected={tab} />
      <section aria-label={tab}>
        {tab === "status" && <StatusTab {...parts} />}
        {tab === "logs" && <LogsTab {...parts} />}
        {tab === "events" && <EventsTab {...parts} />}
        {tab === "explanation" && <ExplainTab {...parts} />}
        {tab === "document" && <DocumentTab {...parts} />}
      </section>
    </>
  );
}

function Tabs({ tabs, selected }: { readonly tabs: readonly string[]; readonly selected: string }): ReactNode {
  const navigate = workPageRoute.useNavigate();
  return (
    <nav className="tabs" aria-label="Parts of this page">
      {tabs.map((each) => (
        <button
          key={each}
          type="button"
          aria-current={each === selected ? "page" : undefined}
          onClick={() => void navigate({ search: (before) => ({ ...before, tab: each }), replace: true })}
        >
          {each}
        </button>
      ))}
    </nav>
  );
}

function TraceLink({ traceparent }: { readonly traceparent: string }): ReactNode {
  const { jaegerUrl = "" } = useMethods() ?? {};
  const [, trace] = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent) ?? [];
  if (trace === undefined || !/^https?:\/\//.test(jaegerUrl)) return null;
  return (
    <a href={`${jaegerUrl.replace(/\/$/, "")}/trace/${trace}`} target="_blank" rel="noreferrer">
      trace
    </a>
  );
}

function isSameWork(kind: WorkKind, id: string, type: string, item: unknown): boolean {
  const work = workOf({ kind, item } as WorkItem);
  return work.id === id && (type === "" || work.type === type);
}

/** Returns a value that changes whenever the item changes: members of a job and replicas of a set change without their record. */
function revisionOf(kind: WorkKind, item: unknown): unknown {
  return kind === "session" || kind === "lease" ? (item as Session | Lease).revision : item;
}
