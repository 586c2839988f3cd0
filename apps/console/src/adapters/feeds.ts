import { emptyFeed, foldFeed, type FeedEvent, type FeedState } from "../domain/fold-feed.ts";
import { followLists, type ListEvent, type ListPlaces } from "./follow-lists.ts";
import type {
  Job,
  Lease,
  NodeRecord,
  Pool,
  Problem,
  QueueState,
  ReplicaSet,
  Reservation,
  Session,
} from "./messages.ts";

export type Feeds = {
  readonly sessions: Session;
  readonly jobs: Job;
  readonly "replica-sets": ReplicaSet;
  readonly leases: Lease;
  readonly pools: Pool;
  readonly nodes: NodeRecord;
  readonly reservations: Reservation;
  readonly queues: QueueState;
};

export type FeedName = keyof Feeds;

/** Returns the field by which the gateway identifies an item. */
const KEYS: { readonly [Name in FeedName]: (item: Feeds[Name]) => string } = {
  sessions: ({ name }) => name,
  jobs: ({ key }) => `${key?.kind ?? ""}/${key?.namespace ?? ""}/${key?.name ?? ""}`,
  "replica-sets": ({ record }) => record?.name ?? "",
  leases: ({ record }) => record?.order?.id ?? "",
  pools: ({ name }) => name,
  nodes: ({ name }) => name,
  reservations: ({ owner }) => `${owner?.kind ?? ""}/${owner?.id ?? ""}`,
  queues: ({ queue }) => queue?.name ?? "",
};

/** Interval within which changes are rendered together. */
const FLUSH_MS = 100;

type Item = Feeds[FeedName];

/** One followed list, which all its readers share. */
export type Feed<Of> = {
  readonly state: () => FeedState<Of>;
  /** Calls `onChange` at each change of the list until the returned function is called. */
  readonly subscribe: (onChange: () => void) => () => void;
};

type OwnFeed = Feed<Item> & {
  readonly report: (event: FeedEvent<Item>) => void;
  readonly forget: () => void;
};

let onUnauthenticated: () => void = () => undefined;

/** Registers the callback for the moment at which the gateway no longer accepts the user. */
export function whenUnauthenticated(callback: () => void): void {
  onUnauthenticated = callback;
}

const feeds = new Map<FeedName, OwnFeed>();

/** Returns the feed of a list, which all components share. */
export function feedOf<Name extends FeedName>(name: Name): Feed<Feeds[Name]> {
  const known = feeds.get(name) ?? makeFeed(name);
  feeds.set(name, known);
  return known as unknown as Feed<Feeds[Name]>;
}

function makeFeed(name: FeedName): OwnFeed {
  const readers = new Set<() => void>();
  let state = emptyFeed<Item>();
  let queued: FeedEvent<Item>[] = [];
  let flush: number | undefined;

  const apply = (): void => {
    flush = undefined;
    state = foldFeed(state, queued);
    queued = [];
    const isSignedOut = state.status === "unauthenticated";
    if (isSignedOut) forgetAll();
    for (const reader of readers) reader();
    if (isSignedOut) onUnauthenticated();
  };
  return {
    state: () => state,
    subscribe: (onChange) => {
      readers.add(onChange);
      follow(name);
      return () => void readers.delete(onChange);
    },
    report: (event) => {
      queued.push(event);
      flush ??= window.setTimeout(apply, FLUSH_MS);
    },
    forget: () => {
      window.clearTimeout(flush);
      flush = undefined;
      queued = [];
      state = emptyFeed();
    },
  };
}

/** The narrower lists, for example `jobs/team-a`, that replace lists which the gateway does not serve as a whole. */
const narrowed = new Map<FeedName, string>();
let workNamespace: string | undefined;

/** Sets the namespace whose jobs are followed, for users who may not list the jobs of all namespaces. */
export function followJobsOf(namespace: string): void {
  workNamespace = namespace;
}

/** Lists that a page has requested. They stay followed when pages change, and all share one connection. */
const followed = new Set<FeedName>();
let places: ListPlaces = { lastEventId: "" };
let connection: AbortController | undefined;
let connecting: number | undefined;

function follow(name: FeedName): void {
  if (followed.has(name)) return;
  followed.add(name);
  // The delay collects all lists of a page into one request.
  connecting ??= window.setTimeout(connect);
}

/** Replaces the connection. The gateway continues the lists that the page already has. */
function connect(): void {
  disconnect();
  if (document.hidden || followed.size === 0) return;
  connection = new AbortController();
  const names = [...followed].map((name) => narrowed.get(name) ?? name);
  void followLists(names, places, { onOpen, onEvent, onLost }, connection.signal);
}

function disconnect(): void {
  window.clearTimeout(connecting);
  connecting = undefined;
  connection?.abort();
  connection = undefined;
}

function forgetAll(): void {
  disconnect();
  followed.clear();
  narrowed.clear();
  places = { lastEventId: "" };
  for (const feed of feeds.values()) feed.forget();
}

function reportToAll(event: FeedEvent<Item>): void {
  for (const name of followed) feeds.get(name)?.report(event);
}

function onOpen(): void {
  reportToAll({ kind: "opened" });
}

function onLost(problem: Problem): void {
  reportToAll(refusedBy(problem));
}

function onEvent(list: string, event: ListEvent): void {
  const [name] = list.split("/") as [FeedName];
  const keyOf = KEYS[name] as (item: Item) => string;
  const report = (each: FeedEvent<Item>): void => feeds.get(name)?.report(each);
  switch (event.kind) {
    case "reset":
    case "synced":
      report(event);
      break;
    case "added":
    case "modified":
      report({ kind: "put", key: keyOf(event.item as Item), item: event.item as Item });
      break;
    case "deleted":
      report({ kind: "deleted", key: keyOf(event.item as Item) });
      break;
    case "stale":
      report({ kind: "stale", detail: event.problem.detail });
      break;
    case "closed":
      if (list === "jobs" && event.problem.code === "FORBIDDEN" && workNamespace !== undefined) {
        narrowed.set(list, `${list}/${workNamespace}`);
        connecting ??= window.setTimeout(connect);
      } else report(refusedBy(event.problem));
      break;
  }
}

function refusedBy({ status, code, detail }: Problem): FeedEvent<Item> {
  if (status === 401 || code === "UNAUTHENTICATED") return { kind: "refused", status: "unauthenticated", detail };
  if (status === 403 || code === "FORBIDDEN") return { kind: "refused", status: "forbidden", detail };
  return { kind: "stale", detail };
}

// A hidden page closes its connection, so that other pages can connect.
if (typeof document !== "undefined")
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      disconnect();
      reportToAll({ kind: "stale", detail: "the page was hidden" });
    } else connect();
  });
