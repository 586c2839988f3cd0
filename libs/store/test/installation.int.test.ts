import { connect, nkeyAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { bucketKeys, buckets, subjects } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readInstallationId, openBucket } from "../src/index.ts";
import { connectTo, makeJsonCodec } from "./connected.ts";

const MAKERS = ["session-controller", "job-controller", "replication-farm", "provision-engine"] as const;
const stack = new AsyncDisposableStack();
let server: TestNats;

/** Connects with the rights of this service. */
async function connectedAs(user: (typeof MAKERS)[number]): Promise<NatsConnection> {
  const authenticator = nkeyAuthenticator(new TextEncoder().encode(server.seedOf(user)));
  return stack.use(await connect({ servers: server.url, authenticator, inboxPrefix: subjects.inbox(user) }));
}

beforeAll(async () => {
  server = stack.use(await startTestNats({ users: true }));
});
afterAll(() => stack.disposeAsync());

it("is created once, by the first service, with the rights of each of them", async () => {
  const services = await Promise.all([...MAKERS, ...MAKERS].map(connectedAs));
  const ids = await Promise.all(services.map(readInstallationId));
  const [id = ""] = ids;
  expect(new Set(ids)).toEqual(new Set([id]));
  // The id must be valid as a label value and as a DNS label.
  expect(id).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])$/);

  await server.kill();
  await server.start();
  expect(await readInstallationId(await connectedAs("session-controller"))).toBe(id);
});

it("is a new one in a NATS without state", async () => {
  await using first = await startTestNats();
  await using connection = await connectTo(first);
  const id = await readInstallationId(connection);
  await first.kill();
  await first.loseStore();
  await first.start();
  expect(await readInstallationId(connection)).not.toBe(id);
});

it("is rejected if the bucket has a malformed id", async () => {
  await using other = await startTestNats();
  await using connection = await connectTo(other);
  const bucket = await openBucket(connection, { name: buckets.installation, codec: makeJsonCodec<string>() });
  await bucket.create(bucketKeys.installationId, "mine");
  await expect(readInstallationId(connection)).rejects.toMatchObject({
    message: expect.stringMatching(/muster-installation\/id/) as string,
    cause: { message: '""mine"" is not the id of an installation: muster- and 16 digits' },
  });
});
