import { fillPage, readNewest, serveMethods, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { AuditService, muster, streams } from "@muster/proto";
import type { Logger } from "@muster/service";
import { userKey } from "./audit-log.ts";
import { listVersions } from "./list-versions.ts";

const { ChangeAudited } = muster.gateway.v1;
type Change = muster.gateway.v1.ChangeAudited;
type Asked = muster.gateway.v1.ListChangesRequest;

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 500;
/** Maximum events of other names, or from before `sinceMs`, that one call reads. Its page may then have fewer changes than the limit, and can be continued. */
const MAX_READ = 5000;
/** Age after which a change without an outcome counts as unknown. It exceeds the timeout of any call, so the gateway of the change has died. */
const SETTLED_MS = 65_000;
const RESOURCE = /^[a-z]{1,63}$/;
const TOKEN = /^[1-9]\d{0,15}$/;

type Page = {
  /** The changes, sorted from old to new. */
  readonly changes: readonly Change[];
  /** Undefined if no older changes exist. */
  readonly before: number | undefined;
  readonly lastSequence: number;
};

/** Serves the audit from the streams of `openAuditLog`, and the running versions, until disposal. */
export function serveAudit(
  bus: NatsBus,
  { version, logger }: { readonly version: string; readonly logger: Pick<Logger, "error"> },
): Promise<AsyncDisposable> {
  return serveMethods(
    bus,
    AuditService,
    {
      listChanges: async (asked, { signal, pageBytes }) => {
        const page = asked.after > 0 ? await readAfter(bus, asked, signal) : await readPage(bus, asked, signal);
        return fit(page, asked.after > 0, pageBytes);
      },
      listVersions: listVersions(bus),
    },
    {
      version,
      description: "the audit of changes over HTTP",
      onDefect: (method, error) => {
        logger.error({ err: error, method }, "a request failed inside the gateway");
      },
    },
  );
}

/** Cuts a page to the size of one reply: keeps its newest events, or the oldest events of a page after a number. */
function fit(
  { changes, before, lastSequence }: Page,
  isAfter: boolean,
  bytes: number,
): { readonly changes: Change[]; readonly continue: string; readonly lastSequence: number } {
  const order = isAfter ? changes : changes.toReversed();
  const limits = { limit: MAX_LIMIT, bytes, encode: (change: Change) => ChangeAudited.encode(change).finish() };
  const { messages, last, isMore } = fillPage(order, (change) => change, limits);
  if (isAfter)
    return { changes: [...messages], continue: "", lastSequence: isMore ? (last?.sequence ?? 0) : lastSequence };
  const older = isMore ? last?.sequence : before;
  return { changes: messages.toReversed(), continue: older === undefined ? "" : String(older), lastSequence };
}

async function readPage(bus: NatsBus, asked: Asked, signal: AbortSignal): Promise<Page> {
  const range = rangeOf(asked);
  const limit = limitOf(asked);
  const { lastSequence } = (await bus.streamState(range.stream)) ?? { lastSequence: 0 };
  const found: Change[] = [];
  let before = positionOf(asked) ?? lastSequence + 1;
  for (let read = 0; read < MAX_READ;) {
    const messages = await readNewest(bus, range, { limit: limit + 1, before }, signal);
    signal.throwIfAborted();
    read += messages.length;
    const since = messages.filter(({ atMs }) => atMs >= asked.sinceMs);
    const matching = since.map(changeOf).filter((change) => isAsked(change, asked));
    found.unshift(...matching);
    const isWhole = messages.length <= limit || since.length < messages.length;
    if (found.length > limit) return { changes: found.slice(-limit), before: found.at(-limit)?.sequence, lastSequence };
    if (isWhole) return { changes: found, before: undefined, lastSequence };
    before = messages[0]?.sequence ?? 0;
  }
  return { changes: found, before, lastSequence };
}

/**
 * Reads forward, so that a follower misses no change. Stops before a change in flight: its outcome has another number, and a follower receives each change
 * once. A number outside the stream belongs to a lost stream.
 */
async function readAfter(bus: NatsBus, asked: Asked, signal: AbortSignal): Promise<Page> {
  const range = rangeOf(asked);
  const limit = limitOf(asked);
  const { lastSequence } = (await bus.streamState(range.stream)) ?? { lastSequence: 0 };
  if (asked.after > lastSequence) return readPage(bus, { ...asked, continue: "" }, signal);
  const changes: Change[] = [];
  let from = asked.after + 1;
  for (let read = 0; read < MAX_READ && changes.length < limit && from <= lastSequence; read += 1) {
    const message = await bus.readMessage(range.stream, range.subject, from);
    signal.throwIfAborted();
    if (message === undefined || message.sequence > lastSequence) {
      from = lastSequence + 1;
      break;
    }
    const change = changeOf(message);
    if (change.status === 0 && Date.now() - message.atMs < SETTLED_MS) break;
    if (message.atMs >= asked.sinceMs && isAsked(change, asked)) changes.push(change);
    from = message.sequence + 1;
  }
  return { changes, before: undefined, lastSequence: from - 1 };
}

function changeOf({ payload, sequence }: { readonly payload: Uint8Array; readonly sequence: number }): Change {
  return Object.assign(ChangeAudited.decode(payload), { sequence });
}

/** Returns whether the change matches the query. The subject selects the resource and a digest of the user, which several users may share. */
function isAsked(change: Change, { user, name }: Asked): boolean {
  return (user === "" || change.user === user) && (name === "" || change.name === name);
}

function rangeOf({ resource, user, refused }: Asked): { readonly stream: string; readonly subject: string } {
  if (resource !== "" && !RESOURCE.test(resource))
    refuse("resource", `"${resource}" is no plural of a resource, such as sessions`);
  const stream = refused ? streams.apiRefusals : streams.apiAudit;
  const [any = ""] = stream.subjects;
  const parts = any.split(".");
  if (resource !== "") parts[2] = resource;
  if (user !== "") parts[3] = userKey(user);
  return { stream: stream.name, subject: parts.join(".") };
}

function limitOf({ limit }: Asked): number {
  if (limit > MAX_LIMIT) refuse("limit", `the number ${limit} is not from 1 to ${MAX_LIMIT}`);
  return limit === 0 ? DEFAULT_LIMIT : limit;
}

function positionOf({ continue: token }: Asked): number | undefined {
  if (token === "") return undefined;
  return TOKEN.test(token) ? Number(token) : refuse("continue", `"${token}" is not from the previous reply`);
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
