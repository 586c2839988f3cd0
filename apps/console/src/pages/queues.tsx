import { useMemo, type ReactNode } from "react";
import type { Reservation } from "../adapters/messages.ts";
import { describeWait, formatAge } from "../domain/describe.ts";
import { barsOfQueue, describeQueueProblem, placeQueues, waitingIn, type PlacedQueue } from "../domain/queue-tree.ts";
import { FeedNotice } from "../parts/feed-notice.tsx";
import { OwnerLink } from "../parts/owner-link.tsx";
import { QuotaBars } from "../parts/quota-bars.tsx";
import { useFeed } from "../parts/use-feed.ts";
import { useNow } from "../parts/use-now.ts";

const NOW_MS = 5000;
/** Requests that a queue shows; the others are counted. */
const MAX_WAITING = 10;

export function Queues(): ReactNode {
  const queues = useFeed("queues");
  const reservations = useFeed("reservations");
  const nowMs = useNow(NOW_MS);
  const placed = useMemo(() => placeQueues(queues.list), [queues.list]);
  const unqueued = useMemo(() => waitingIn("", reservations.list), [reservations.list]);
  return (
    <>
      <h1>Queues</h1>
      <FeedNotice
        feeds={[
          { name: "queues", feed: queues },
          { name: "reservations", feed: reservations },
        ]}
      />
      {placed.length === 0 && queues.status === "live" && <p className="quiet">There are no queues.</p>}
      <ul className="tree">
        {placed.map((queue) => (
          <QueueCard key={queue.name} queue={queue} reservations={reservations.list} nowMs={nowMs} />
        ))}
      </ul>
      {unqueued.length > 0 && (
        <section aria-labelledby="unqueued">
          <h2 id="unqueued">Without a queue</h2>
          <Waiting label="Requests without a queue" waiting={unqueued} nowMs={nowMs} />
        </section>
      )}
    </>
  );
}

type QueueParts = {
  readonly queue: PlacedQueue;
  readonly reservations: readonly Reservation[];
  readonly nowMs: number;
};

function QueueCard({ queue: { name, depth, state }, reservations, nowMs }: QueueParts): ReactNode {
  const waiting = useMemo(() => waitingIn(name, reservations), [name, reservations]);
  const { problem, admitted, pending, shareMillionths, queue } = state;
  return (
    <li className={`card depth${Math.min(depth, MAX_DEPTH)}`}>
      <h2 className="long">{name}</h2>
      <p className="quiet">
        {queue?.parent && `below ${queue.parent}; `}
        {queue?.strategy && `${queue.strategy}; `}
        {admitted} admitted, {pending} waiting
        {shareMillionths > 0 &&
          `; borrows ${(shareMillionths / 10_000).toFixed(1)} % of what its tree can lend, by its weight`}
      </p>
      {problem !== "" && (
        <p className="notice warn">
          <code>{problem}</code> It admits nothing: {describeQueueProblem(problem)}.
        </p>
      )}
      <QuotaBars bars={barsOfQueue(state)} />
      {waiting.length > 0 && <Waiting label={`Requests that wait in ${name}`} waiting={waiting} nowMs={nowMs} />}
    </li>
  );
}

/** Deeper queues are indented like these. */
const MAX_DEPTH = 4;

type WaitingParts = { readonly label: string; readonly waiting: readonly Reservation[]; readonly nowMs: number };

function Waiting({ label, waiting, nowMs }: WaitingParts): ReactNode {
  return (
    <div className="wide-box" tabIndex={0} role="region" aria-label={label}>
      <table>
        <caption>Who is next</caption>
        <thead>
          <tr>
            {["Place", "Owner", "Priority", "Machines", "Waits for", "Reason"].map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {waiting.slice(0, MAX_WAITING).map(({ id, owner, priority, needs, createdAtMs, because }, index) => (
            <tr key={id}>
              <td>{index + 1}</td>
              <th scope="row">{owner && <OwnerLink owner={owner} />}</th>
              <td>{priority}</td>
              <td>{needs.length}</td>
              <td>{formatAge(createdAtMs, nowMs)}</td>
              <td>
                {because && (
                  <>
                    <code>{because.code}</code> {describeWait(because)}
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {waiting.length > MAX_WAITING && <p className="quiet">and {waiting.length - MAX_WAITING} more</p>}
    </div>
  );
}
