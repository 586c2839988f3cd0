import { Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import type { NodeRecord, Pool, Reservation } from "../adapters/messages.ts";
import { formatAge } from "../domain/describe.ts";
import { areCurrent } from "../domain/fold-feed.ts";
import { buildPoolField } from "../domain/pool-field.ts";
import { barsOfQueue, placeQueues } from "../domain/queue-tree.ts";
import { groupWaits, latestFailures } from "../domain/select-work.ts";
import type { Work } from "../domain/work.ts";
import { Badge } from "../parts/badge.tsx";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { MachineList } from "../parts/machine-list.tsx";
import { PoolField } from "../parts/pool-field.tsx";
import { QuotaBars } from "../parts/quota-bars.tsx";
import { useFeed } from "../parts/use-feed.ts";
import { useNow } from "../parts/use-now.ts";
import { useWork } from "../parts/use-work.ts";
import { WorkLink } from "../parts/work-link.tsx";

const NOW_MS = 5000;
const MAX_FAILURES = 8;
const MAX_WAITS = 12;

export function Overview(): ReactNode {
  const pools = useFeed("pools");
  const reservations = useFeed("reservations");
  const { work, feeds } = useWork();
  const nodes = useFeed("nodes");
  const queues = useFeed("queues");
  const nowMs = useNow(NOW_MS);
  const isCurrent = areCurrent(feeds.map(({ feed }) => feed));
  const all = [
    { name: "pools", feed: pools },
    { name: "reservations", feed: reservations },
    { name: "nodes", feed: nodes },
    { name: "queues", feed: queues },
    ...feeds,
  ];
  return (
    <>
      <h1>Overview</h1>
      <FeedNotice feeds={all} />
      <section aria-labelledby="pools">
        <h2 id="pools">Pools</h2>
        {pools.list.length === 0 && pools.status === "live" && <p className="quiet">There are no pools yet.</p>}
        {pools.list.map((pool) => (
          <PoolCard key={pool.name} pool={pool} reservations={reservations.list} nodes={nodes.list} nowMs={nowMs} />
        ))}
      </section>
      <div className="columns">
        <Waits work={work} isCurrent={isCurrent} nowMs={nowMs} />
        <Failures work={work} isCurrent={isCurrent} nowMs={nowMs} />
      </div>
      <section aria-labelledby="queues">
        <h2 id="queues">Queues</h2>
        {queues.list.length === 0 && queues.status === "live" && (
          <p className="quiet">There are no queues: work waits for machines, and for no quota.</p>
        )}
        <ul className="cards">
          {placeQueues(queues.list).map(({ name, state }) => (
            <li key={name} className="card">
              <h3 className="long">{name}</h3>
              <p className="quiet">
                {state.admitted} admitted, {state.pending} waiting
              </p>
              <QuotaBars bars={barsOfQueue(state)} />
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

type PoolCardParts = {
  readonly pool: Pool;
  readonly reservations: readonly Reservation[];
  readonly nodes: readonly NodeRecord[];
  readonly nowMs: number;
};

function PoolCard({ pool, reservations, nodes, nowMs }: PoolCardParts): ReactNode {
  const groups = useMemo(() => buildPoolField(pool, reservations, nodes), [pool, reservations, nodes]);
  return (
    <article className="card" aria-label={`Pool ${pool.name}`}>
      <h3 className="long">{pool.name}</h3>
      <p className="quiet">
        {pool.held} of {pool.capacity} held, {pool.available} free
        {pool.unusable > 0 && `, ${pool.unusable} lost`}
        {pool.waiting > 0 && `, ${pool.waiting} ${pool.waiting === 1 ? "request waits" : "requests wait"}`}
        {pool.elasticMax > 0 && `; grows to ${pool.elasticMax} when work needs machines`}
      </p>
      {groups.length > 0 && <PoolField name={pool.name} groups={groups} nowMs={nowMs} />}
      <MachineList pool={pool.name} />
    </article>
  );
}

type WorkParts = {
  readonly work: readonly Work[];
  /** True if the lists are current: only then does an empty list state that no item exists. */
  readonly isCurrent: boolean;
  readonly nowMs: number;
};

function Waits({ work, isCurrent, nowMs }: WorkParts): ReactNode {
  const groups = useMemo(() => groupWaits(work), [work]);
  return (
    <section aria-labelledby="waits">
      <h2 id="waits">What waits</h2>
      {groups.length === 0 && isCurrent && <p className="quiet">Nothing waits.</p>}
      <ul className="rows">
        {groups.slice(0, MAX_WAITS).map(({ code, because, count, oldestMs, filter }) => (
          <li key={`${code} ${because}`}>
            <Link to="/workloads" search={filter}>
              {count} × {code}
            </Link>
            <span className="quiet"> the oldest for {formatAge(oldestMs, nowMs)}</span>
            <p className="long">{because}</p>
          </li>
        ))}
        {groups.length > MAX_WAITS && (
          <li>
            <Link to="/workloads" search={{ stage: "waiting" }}>
              and {groups.length - MAX_WAITS} more reasons
            </Link>
          </li>
        )}
      </ul>
    </section>
  );
}

function Failures({ work, isCurrent, nowMs }: WorkParts): ReactNode {
  const failed = useMemo(() => latestFailures(work, MAX_FAILURES), [work]);
  return (
    <section aria-labelledby="failures">
      <h2 id="failures">What failed lately</h2>
      {failed.length === 0 && isCurrent && <p className="quiet">Nothing has failed.</p>}
      <ul className="rows">
        {failed.map((each) => (
          <li key={`${each.kind}/${each.type}/${each.id}`}>
            <Badge stage="failed">{each.code || each.state}</Badge> <WorkLink work={each} />
            <span className="quiet"> {each.finishedAtMs > 0 && `${formatAge(each.finishedAtMs, nowMs)} ago`}</span>
            <p className="long">{each.because}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}
