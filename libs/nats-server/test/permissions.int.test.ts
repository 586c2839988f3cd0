import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nkeyAuthenticator, PermissionViolationError } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import { bucketKeys, buckets, streams, subjects } from "@muster/proto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findNatsServer, makeNkey, NATS_USERS, buildPermissions, startNatsServer } from "../src/index.ts";
import type { NatsServer, NatsUserName } from "../src/index.ts";

const keys = new Map(NATS_USERS.map((user) => [user, makeNkey()]));
const stack = new AsyncDisposableStack();
let server: NatsServer;

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), "muster-permissions-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const { path: binary } = await findNatsServer({ env: process.env });
  const users = (user: NatsUserName): string => keys.get(user)?.publicKey ?? "";
  server = stack.use(await startNatsServer({ binary, directory, port: 0, token: "unused", users }));
});
afterAll(() => stack.disposeAsync());

const STREAMS = [
  ...Object.values(buckets).map((name) => `KV_${name}`),
  ...Object.values(streams).map(({ name }) => name),
];

/** Forbidden to every service and every user of a command line: removing state, reading everything, operating the server. */
const FORBIDDEN_TO_ALL = {
  publish: [
    ...STREAMS.flatMap((name) =>
      ["STREAM.DELETE", "STREAM.LEADER.STEPDOWN", "CONSUMER.LIST"].map((verb) => `$JS.API.${verb}.${name}`),
    ),
    "$JS.API.STREAM.CREATE.OTHER",
    "$JS.API.STREAM.LIST",
    "$JS.API.CONSUMER.DELETE.MUSTER_SESSION_COMMANDS.session-executors",
    "$SYS.REQ.SERVER.PING",
    "muster.other",
  ],
  subscribe: [
    ">",
    "*",
    "_INBOX.>",
    "_INBOX.*",
    "$KV.>",
    ...Object.values(buckets).map((name) => `$KV.${name}.>`),
    "$JS.>",
    "$JS.ACK.>",
    "$SYS.>",
    "muster.>",
    "muster.req.>",
    "muster.cmd.>",
    subjects.dead("session"),
    "muster.log.reservation",
  ],
};

describe.each(NATS_USERS)("%s", (user) => {
  it("may use its own subjects, and is refused every other subject of any user", async () => {
    const own = buildPermissions(user);
    const tried = {
      publish: new Set([...everyones("publish"), ...FORBIDDEN_TO_ALL.publish]),
      subscribe: new Set([...everyones("subscribe"), ...FORBIDDEN_TO_ALL.subscribe]),
    };
    const refused = await refusalsOf(user, tried);
    for (const way of ["publish", "subscribe"] as const) {
      const wanted = [...tried[way]].filter((subject) => !own[way].some((pattern) => covers(pattern, subject)));
      expect(refused[way].toSorted()).toEqual(wanted.toSorted());
      expect(refused[way]).toEqual(expect.arrayContaining(FORBIDDEN_TO_ALL[way]));
    }
  });
});

it.each([
  [buckets.pods, ["watcher"]],
  [buckets.nodes, ["watcher"]],
  [buckets.sessions, ["session-controller"]],
  [buckets.sessionLogs, ["session-controller"]],
  [buckets.scaledNodes, ["node-scaler"]],
  [buckets.pools, ["node-scaler"]],
  [buckets.queues, ["job-controller"]],
  [buckets.replicaSets, ["replication-farm"]],
  [buckets.rolls, ["replication-farm"]],
  [buckets.farmLocks, ["replication-farm"]],
  [buckets.leases, ["provision-engine"]],
  [buckets.snapshots, ["reservation-manager"]],
  [buckets.apiRequests, ["gateway"]],
])("lets only its owner write %s", (bucket, owners) => {
  expect(usersWho("publish", `$KV.${bucket}.any`)).toEqual(owners);
  expect(usersWho("publish", `$JS.API.STREAM.UPDATE.KV_${bucket}`)).toEqual(owners);
});

it("grants each lock to its contenders, beside the owner of the bucket", () => {
  const writers = (lock: string): NatsUserName[] => usersWho("publish", `$KV.${buckets.locks}.${lock}`);
  expect(writers("session-controller")).toEqual(["reservation-manager", "session-controller"]);
  expect(writers("node-scaler")).toEqual(["node-scaler", "reservation-manager"]);
  expect(writers("provision-engine.main")).toEqual(["provision-engine", "reservation-manager"]);
  expect(writers("job-controller")).toEqual(["job-controller", "reservation-manager"]);
  expect(writers("reservation-manager")).toEqual(["reservation-manager"]);
});

it("lets services that create pods create the id of the installation, and no other key", () => {
  const { installation } = buckets;
  const makers = ["job-controller", "provision-engine", "replication-farm", "session-controller"];
  expect(usersWho("publish", `$KV.${installation}.${bucketKeys.installationId}`)).toEqual(makers);
  expect(usersWho("publish", `$KV.${installation}.any`)).toEqual([]);
  expect(usersWho("publish", `$JS.API.STREAM.PURGE.KV_${installation}`)).toEqual([]);
});

it.each([
  ["muster.log.reservation", ["reservation-manager"]],
  [subjects.reservationGranted("session", "a"), ["reservation-manager"]],
  [subjects.sessionEventRecorded("a"), ["session-controller"]],
  [subjects.orderLease("main", "a"), ["cli"]],
  [subjects.farmAlerted("a"), ["replication-farm"]],
  [subjects.farmAudited("a"), ["replication-farm"]],
  [subjects.leaseAnswered("a"), ["provision-engine"]],
  [subjects.leaseAudited("a"), ["provision-engine"]],
  [subjects.request("reservation", "limit-concurrency"), ["cli", "session-controller"]],
  [subjects.request("session", "submit-session"), ["cli", "gateway"]],
  [subjects.request("node", "terminate-node"), ["cli", "gateway"]],
  [subjects.request("node", "dump-nodes"), ["cli"]],
  [subjects.changeAudited("jobs", "0a1b", "1-1"), ["gateway"]],
  [subjects.changeRefused("jobs", "0a1b"), ["gateway"]],
  [subjects.request("gateway", "list-changes"), ["cli", "gateway"]],
  [`$JS.API.STREAM.UPDATE.${streams.apiAudit.name}`, ["gateway"]],
  [`$JS.API.STREAM.SNAPSHOT.${streams.ledger.name}`, ["backup"]],
  [`$JS.API.STREAM.RESTORE.KV_${buckets.locks}`, ["backup"]],
])("lets only its sender send to %s", (subject, senders) => {
  expect(usersWho("publish", subject)).toEqual(senders);
});

it("lets only its service receive each request", () => {
  expect(usersWho("subscribe", subjects.request("reservation", "reserve"))).toEqual(["reservation-manager"]);
  expect(usersWho("subscribe", subjects.request("session", "submit-session"))).toEqual(["session-controller"]);
});

type Way = "publish" | "subscribe";

/** The subjects of all users, each wildcard filled. */
function everyones(way: Way): string[] {
  return NATS_USERS.flatMap((user) => buildPermissions(user)[way]).map((pattern) =>
    pattern.replaceAll("*", "any").replace(/>$/, "any"),
  );
}

function usersWho(way: Way, subject: string): NatsUserName[] {
  return NATS_USERS.filter((user) =>
    buildPermissions(user)[way].some((pattern) => covers(pattern, subject)),
  ).toSorted();
}

/** Whether the pattern covers every subject that matches the other one. */
function covers(pattern: string, subject: string): boolean {
  const [wide, narrow] = [pattern.split("."), subject.split(".")];
  for (const [index, token] of wide.entries()) {
    if (token === ">") return narrow.length > index;
    const other = narrow[index];
    if (other === undefined || other === ">") return false;
    if (token !== "*" && token !== other) return false;
  }
  return wide.length === narrow.length;
}

/** Sends to all subjects, and returns those that the server refused. */
async function refusalsOf(
  user: NatsUserName,
  tried: Readonly<Record<Way, ReadonlySet<string>>>,
): Promise<Record<Way, string[]>> {
  const seed = new TextEncoder().encode(keys.get(user)?.seed ?? "");
  const connection = await connect({ servers: server.url, authenticator: nkeyAuthenticator(seed) });
  const refused = { publish: new Set<string>(), subscribe: new Set<string>() };
  const following = (async () => {
    for await (const status of connection.status()) {
      if (status.type !== "error" || !(status.error instanceof PermissionViolationError)) continue;
      refused[status.error.operation === "publish" ? "publish" : "subscribe"].add(status.error.subject);
    }
  })();
  for (const subject of tried.publish) connection.publish(subject, "");
  for (const subject of tried.subscribe) connection.subscribe(subject, { callback: () => undefined });
  // The server's replies to all of that arrive before its answer to this.
  await connection.flush();
  await connection.close();
  await following;
  return { publish: [...refused.publish], subscribe: [...refused.subscribe] };
}
