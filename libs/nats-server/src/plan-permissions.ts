import { buckets, subjects } from "@muster/proto";
import { listRequests, rights, type NatsUserName, type NatsRights } from "./rights.ts";

/** Subjects, with wildcards, that a user may publish to and subscribe to; all others are refused. */
type Permissions = { readonly publish: readonly string[]; readonly subscribe: readonly string[] };

const ANY_INBOX = "_INBOX.>";
const SERVICE_VERBS = ["PING", "INFO", "STATS"];

export function buildPermissions(user: NatsUserName): Permissions {
  return planPermissions(user, rights[user]);
}

/** Converts the needs of a user into its subjects, those of JetStream's API included. */
export function planPermissions(user: string, needed: NatsRights): Permissions {
  const { serves = [], asks = [], owns = [], reads = [], locks = [], marks = [], publishes = [] } = needed;
  const { listens = [], keeps = [], inspects = [], counts = [], consumes = [], log } = needed;
  const { oversees = [], copies = [], discovers = false } = needed;
  const lockReads = locks.length === 0 ? [] : [buckets.locks];
  const publish = [
    ...asks.flatMap(askingSubjects),
    // Answers go to inboxes, whose names cannot be guessed.
    ...(serves.length === 0 ? [] : [ANY_INBOX]),
    ...publishes,
    ...locks.map((key) => `$KV.${buckets.locks}.${key}`),
    ...marks.map((key) => `$KV.${buckets.installation}.${key}`),
    // A starting service sets its number of replicas to that of the others.
    ...(marks.length === 0
      ? []
      : ["CREATE", "UPDATE", "INFO", "MSG.GET"].map((verb) => api(`STREAM.${verb}`, kv(buckets.installation)))),
    ...owns.flatMap((bucket) => [`$KV.${bucket}.>`, api("STREAM.UPDATE", kv(bucket)), api("STREAM.PURGE", kv(bucket))]),
    // The first user creates the bucket.
    ...[...owns, ...reads, ...lockReads].flatMap((bucket) => [
      api("STREAM.CREATE", kv(bucket)),
      ...following(kv(bucket)),
    ]),
    ...keeps.flatMap((name) => ["CREATE", "UPDATE", "INFO"].map((verb) => api(`STREAM.${verb}`, name))),
    ...inspects.flatMap((name) => [api("STREAM.INFO", name), api("STREAM.MSG.GET", name)]),
    ...counts.map((bucket) => api("STREAM.INFO", kv(bucket))),
    // A command that is still queued is looked for in the stream of its subject.
    ...(consumes.length > 0 || oversees.length > 0 ? ["$JS.API.STREAM.NAMES"] : []),
    ...consumes.flatMap(({ stream, durable }) => [
      api("CONSUMER.CREATE", `${stream}.${durable}.>`),
      api("CONSUMER.INFO", `${stream}.${durable}`),
      api("CONSUMER.MSG.NEXT", `${stream}.${durable}`),
      `$JS.ACK.${stream}.${durable}.>`,
    ]),
    ...(log === undefined
      ? []
      : [
          ...log.subjects,
          ...["CREATE", "UPDATE", "PURGE"].map((verb) => api(`STREAM.${verb}`, log.name)),
          ...following(log.name),
        ]),
    ...(discovers ? ["$SRV.INFO"] : []),
    ...(oversees.length > 0 ? ["$JS.API.INFO", "$SRV.>"] : []),
    ...oversees.map((name) => api("STREAM.MSG.DELETE", name)),
    ...copies.flatMap((name) => [
      ...["INFO", "SNAPSHOT", "RESTORE"].map((verb) => api(`STREAM.${verb}`, name)),
      `$JS.SNAPSHOT.ACK.${name}.>`,
    ]),
    // The server names the subject of each restoring itself.
    ...(copies.length > 0 ? ["$JS.SNAPSHOT.RESTORE.*.*"] : []),
  ];
  const subscribe = [
    `${subjects.inbox(user)}.>`,
    ...listens,
    ...serves.flatMap((service) => [
      ...listRequests(service).flatMap((request) => [request, subjects.requestOfAnyReplica(request)]),
      subjects.cancel(service.area),
      ...SERVICE_VERBS.flatMap((verb) => [
        `$SRV.${verb}`,
        `$SRV.${verb}.${service.area}`,
        `$SRV.${verb}.${service.area}.*`,
      ]),
    ]),
  ];
  return { publish: unique(publish), subscribe: unique(subscribe) };
}

/** The rights to read a stream from its beginning and to follow it. */
function following(stream: string): string[] {
  return [
    api("STREAM.INFO", stream),
    api("STREAM.MSG.GET", stream),
    api("CONSUMER.CREATE", `${stream}.>`),
    api("CONSUMER.DELETE", `${stream}.*`),
    // Enables flow control, so that the server sends only as fast as the client reads.
    `$JS.FC.${stream}.>`,
  ];
}

function kv(bucket: string): string {
  return `KV_${bucket}`;
}

function api(verb: string, of: string): string {
  return `$JS.API.${verb}.${of}`;
}

/** The subjects that a caller sends to: any replica, one that answers a ping when the first is silent, and all of them when it no longer waits. */
function askingSubjects(request: string): string[] {
  // muster.req.<area>.<verb>
  const area = request.split(".")[2] ?? "";
  return [request, subjects.requestOfAnyReplica(request), subjects.ping(area), subjects.cancel(area)];
}

function unique(of: readonly string[]): string[] {
  return [...new Set(of)].sort();
}
