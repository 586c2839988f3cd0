import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream";
import {
  findNatsServer,
  makeNkey,
  NATS_USERS,
  startNatsServer,
  type NatsServer,
  type NatsUserName,
} from "@muster/nats-server";
import { makeCertificateAuthority, makeSignedCertificate, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectNats, connectService } from "../src/index.ts";
import { catchFault } from "./call-suite.ts";
import { accessOf, contextOf } from "./service-context.ts";

const keys = new Map(NATS_USERS.map((user) => [user, makeNkey()]));
const stack = new AsyncDisposableStack();
let directory: string;
let server: NatsServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-credentials-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const ca = await makeCertificateAuthority("test");
  const made = await makeSignedCertificate(ca, { commonName: "nats", use: "server" });
  await write("ca.pem", ca.cert);
  const tls = { certFile: await write("server.pem", made.cert), keyFile: await write("server.key", made.key) };
  const { path: binary } = await findNatsServer({ env: process.env });
  const users = (user: NatsUserName): string => keys.get(user)?.publicKey ?? "";
  server = stack.use(
    await startNatsServer({ binary, directory: join(directory, "nats"), port: 0, token: "unused", tls, users }),
  );
});
afterAll(() => stack.disposeAsync());

async function write(name: string, text: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, text, { mode: 0o600 });
  return path;
}

/** The variables of a service, with the address of the server. */
const variablesOf = (variables: Readonly<Record<string, string>>): Readonly<Record<string, string>> => ({
  MUSTER_NATS_URL: server.url.replace("nats:", "tls:"),
  ...variables,
});
const access = (variables: Readonly<Record<string, string>>) => accessOf(variablesOf(variables));
const contextWith = (variables: Readonly<Record<string, string>>, signal: AbortSignal) =>
  contextOf(variablesOf(variables), signal);

it("connects by TLS with the key of a user, and receives replies on the inbox of that user", async () => {
  const file = await write("watcher.nk", keys.get("watcher")?.seed ?? "");
  const nats = access({ MUSTER_NATS_NKEY_FILE: file, MUSTER_NATS_CA_FILE: join(directory, "ca.pem") });
  await using bus = await connectNats({ ...nats, name: "watcher", inboxPrefix: "_INBOX.watcher" });
  await bus.connection.flush();
  // Without a responder, an error arrives on the inbox.
  const unheard = catchFault(bus.request("_INBOX.missing", new Uint8Array(), { timeoutMs: 60_000 }));
  expect(await unheard).toMatchObject({ code: "unavailable" });
  const forbidden = bus.request("muster.req.reservation.reserve", new Uint8Array(), { timeoutMs: 60_000 });
  await expect(forbidden).rejects.toThrow(/does not permit it to this user/);
  await expect(connectNats({ ...nats, tls: undefined, name: "watcher", timeoutMs: 100 })).rejects.toThrow();
});

it("reports whose key is refused, also in readiness, and connects once the file has the right key", async () => {
  const wrong = makeNkey();
  const file = await write("late.nk", wrong.seed);
  const stop = new AbortController();
  const variables = { MUSTER_NATS_NKEY_FILE: file, MUSTER_NATS_CA_FILE: join(directory, "ca.pem") };
  const { context, said, missing } = contextWith(variables, stop.signal);
  const connecting = connectService(context);
  await until("it has reported that", () => said.length > 0);
  expect(missing()).toContain(`does not take the nkey ${wrong.publicKey} of MUSTER_NATS_NKEY_FILE ${file}`);
  expect(said.join("\n")).toContain("retryInMs");
  expect(said.join("\n")).not.toContain(wrong.seed);
  expect(missing()).toMatch(/^connecting to tls:\/\/127/);
  // The status has no retry time, because the log reports it.
  expect(missing()).not.toMatch(/try again/);
  await write("late.nk", keys.get("watcher")?.seed ?? "");
  await using bus = await connecting;
  await bus.connection.flush();
  expect(missing()).toBeUndefined();
});

it.each<[title: string, spoil: (file: string) => Promise<unknown>, says: RegExp]>([
  ["garbage", (file) => writeFile(file, "garbage"), /it is not the seed of an nkey, which begins with SU/],
  ["nothing", (file) => writeFile(file, ""), /it is not the seed of an nkey, which begins with SU/],
  ["what others may read", (file) => chmod(file, 0o644), /others may use it, its mode is 0644: chmod 0600 is needed/],
  ["nothing at all, for it is gone", (file) => rm(file), /ENOENT: no such file/],
])(
  "reports that the file of its key holds %s, without a stack, and continues once it is right",
  async (_title, spoil, says) => {
    const seed = keys.get("watcher")?.seed ?? "";
    const file = await write("spoilt.nk", seed);
    await spoil(file);
    const variables = { MUSTER_NATS_NKEY_FILE: file, MUSTER_NATS_CA_FILE: join(directory, "ca.pem") };
    const { context, said, missing } = contextWith(variables, new AbortController().signal);
    const connecting = connectService(context);
    connecting.catch(() => undefined);
    await until("it has reported that", missing);
    expect(missing()).toMatch(says);
    expect(missing()).toContain(file);
    expect(said).toHaveLength(1);
    expect(Object.keys(JSON.parse(said[0] ?? "") as object)).toEqual(["detail", "retryInMs"]);
    await rm(file, { force: true });
    await write("spoilt.nk", seed);
    await using bus = await connecting;
    await bus.connection.flush();
    expect(missing()).toBeUndefined();
  },
);

it("reports an untrusted server certificate, and connects once the file has its issuer", async () => {
  const file = await write("trusted.pem", (await makeCertificateAuthority("another")).cert);
  const seed = keys.get("watcher")?.seed ?? "";
  const variables = { MUSTER_NATS_NKEY: seed, MUSTER_NATS_CA_FILE: file };
  const { context, missing } = contextWith(variables, new AbortController().signal);
  const connecting = connectService(context);
  await until("it has reported that", missing);
  expect(missing()).toMatch(`certificate is not trusted by ${file}: `);
  await write("trusted.pem", await readFile(join(directory, "ca.pem"), "utf8"));
  await using bus = await connecting;
  await bus.connection.flush();
  expect(missing()).toBeUndefined();
});

it("reports that the server is away, and waits for it", async () => {
  let away = true;
  const port = createServer((socket) => {
    if (away) socket.destroy();
    else pipeline(socket, connect(Number(new URL(server.url).port), "127.0.0.1"), socket, () => undefined);
  });
  await once(port.listen(0, "127.0.0.1"), "listening");
  await using _ = { [Symbol.asyncDispose]: () => once(port.close(), "close").then(() => undefined) };
  const variables = {
    MUSTER_NATS_URL: `tls://127.0.0.1:${(port.address() as AddressInfo).port}`,
    MUSTER_NATS_NKEY: keys.get("watcher")?.seed ?? "",
    MUSTER_NATS_CA_FILE: join(directory, "ca.pem"),
  };
  const { context, said, missing } = contextWith(variables, new AbortController().signal);
  const connecting = connectService(context);
  await until("it has reported that", missing);
  expect(said.join("\n")).toContain("retryInMs");
  away = false;
  await using bus = await connecting;
  await bus.connection.flush();
  expect(missing()).toBeUndefined();
});

it("stops at the signal while its key is refused", async () => {
  const stop = new AbortController();
  const variables = { MUSTER_NATS_NKEY: makeNkey().seed, MUSTER_NATS_CA_FILE: join(directory, "ca.pem") };
  const { context, said } = contextWith(variables, stop.signal);
  const connecting = catchFault(connectService(context));
  await until("it has reported that", () => said.length > 0);
  stop.abort();
  expect(await connecting).toMatchObject({ code: "cancelled" });
});

it("rejects a key file that others may read, or a key beside a token, and reveals neither", async () => {
  const { seed } = makeNkey();
  const file = await write("open.nk", seed);
  await chmod(file, 0o640);
  const open = connectNats({ ...access({ MUSTER_NATS_NKEY_FILE: file }), name: "x" });
  await expect(open).rejects.toThrow(`${file}: others may use it, its mode is 0640: chmod 0600 is needed`);
  expect(() => access({ MUSTER_NATS_NKEY: seed, MUSTER_NATS_TOKEN: "t0ken" })).toThrow(/only one of/);
  expect(() => access({ MUSTER_NATS_NKEY: seed.slice(1) })).toThrow(/it is not the seed of an nkey/);
  expect(() => access({ MUSTER_NATS_NKEY: seed.slice(1) })).not.toThrow(seed.slice(1));
});
