import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempDisposable, readdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { connectNats, type NatsBus } from "@muster/bus";
import { buckets, subjects } from "@muster/proto";
import { readInstallationId, openBucket, type Bucket } from "@muster/store";
import { startTestNats, buildProcessEnv, type TestNats } from "@muster/testkit";
import fc from "fast-check";
import { expect, it } from "vitest";
import { readBackup, writeBackup } from "../src/adapters/backup-file.ts";
import { inProcess } from "./in-process.ts";

const text = {
  encode: (value: string) => new TextEncoder().encode(value),
  decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes),
};

async function busOf(nats: TestNats, stack: AsyncDisposableStack): Promise<NatsBus> {
  const user = "session-controller";
  const nkey = { seed: nats.seedOf(user) };
  return stack.use(await connectNats({ url: nats.url, nkey, name: "test", inboxPrefix: subjects.inbox(user) }));
}

async function sessionsOf(nats: TestNats, stack: AsyncDisposableStack): Promise<Bucket<string>> {
  return openBucket((await busOf(nats, stack)).connection, { name: buckets.sessions, codec: text });
}

it("copies all streams into one file, and restores them with their revisions on an empty server", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-backup-")));
  const nats = stack.use(await startTestNats({ users: true }));
  const file = join(directory.path, "backup");
  const run = (...args: string[]) =>
    inProcess(args, { url: nats.url, token: "", nkey: nats.seedOf("backup") }).then(({ code, out, err }) => ({
      code,
      said: [...out, ...err].join("\n"),
    }));

  expect(await run("backup", file)).toMatchObject({
    code: 1,
    said: expect.stringMatching(/nothing to copy/) as string,
  });
  const written = await sessionsOf(nats, stack);
  // The value needs more than one chunk of the transfer.
  const long = "x".repeat(400_000);
  await written.create("first", "a");
  const revision = await written.create("long", long);
  const installation = await readInstallationId((await busOf(nats, stack)).connection);

  const asCli = await inProcess(["backup", file], { url: nats.url, token: "", nkey: nats.seedOf("cli") });
  expect(asCli).toMatchObject({
    code: 4,
    err: [
      `error: NATS at ${nats.url} (MUSTER_NATS_URL) permits it only to the user \`backup\`, and the key is that of another`,
      expect.stringMatching(/^hint: MUSTER_NATS_NKEY_FILE .*backup\.nk/) as string,
    ],
  });
  expect(await readdir(directory.path)).toEqual([]);

  expect(await run("backup", file)).toMatchObject({ code: 0 });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await run("backup", file)).toMatchObject({ code: 2, said: expect.stringMatching(/exists already/) as string });
  expect(await run("restore", file)).toMatchObject({
    code: 4,
    said: expect.stringMatching(/KV_muster-sessions, KV_muster-installation\nhint: stop the services/) as string,
  });

  await nats.kill();
  await nats.loseStore();
  await nats.start();
  expect(await run("restore", file)).toMatchObject({ code: 0 });
  const restored = await sessionsOf(nats, stack);
  expect(await restored.get("long")).toMatchObject({ value: long, revision });
  expect(await restored.update("long", "b", revision)).toBe(revision + 1);
  expect(await readInstallationId((await busOf(nats, stack)).connection)).toBe(installation);

  await truncate(file, (await stat(file)).size - 1);
  await nats.kill();
  await nats.loseStore();
  await nats.start();
  expect(await run("restore", file)).toMatchObject({
    code: 2,
    said: expect.stringMatching(/no complete backup/) as string,
  });
});

it("finds its key beside a local stack, and prints the remedy for a stack without one", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-backup-")));
  const nats = stack.use(await startTestNats({ users: true }));
  await (await sessionsOf(nats, stack)).create("first", "a");
  const put = (name: string, text: string): Promise<void> =>
    writeFile(join(directory.path, name), text, { mode: 0o600 });
  await put("cli.nk", nats.seedOf("cli"));
  await put("backup.nk", nats.seedOf("backup"));
  const localFile = join(directory.path, "local.json");
  const local = { natsUrl: nats.url, natsNkeyFile: "cli.nk", natsCaFile: "" };

  await put("local.json", JSON.stringify(local));
  const without = await inProcess(["backup", join(directory.path, "a")], { localFile });
  expect(without.code).toBe(4);
  expect(without.err.join("\n")).toMatch(/\nhint: .*`docker compose up setup` writes/);

  await put("local.json", JSON.stringify({ ...local, natsBackupNkeyFile: "backup.nk" }));
  expect(await inProcess(["backup", join(directory.path, "a")], { localFile })).toMatchObject({ code: 0 });
});

/** Creates three streams and backs them up; runs commands as the user `backup`. */
async function threeStreams(stack: AsyncDisposableStack) {
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-backup-")));
  const nats = stack.use(await startTestNats({ users: true }));
  const file = join(directory.path, "backup");
  const run = async (...args: string[]): Promise<{ readonly code: number; readonly said: string }> => {
    const { code, out, err } = await inProcess(args, { url: nats.url, token: "", nkey: nats.seedOf("backup") });
    return { code, said: [...out, ...err].join("\n") };
  };
  const written = await sessionsOf(nats, stack);
  await written.create("first", "a".repeat(2000));
  for (const [user, name] of [
    ["replication-farm", buckets.replicaSets],
    ["reservation-manager", buckets.snapshots],
  ] as const) {
    const nkey = { seed: nats.seedOf(user) };
    const bus = stack.use(await connectNats({ url: nats.url, nkey, name: "test", inboxPrefix: subjects.inbox(user) }));
    await (await openBucket(bus.connection, { name, codec: text })).create("one", "b".repeat(2000));
  }
  expect(await run("backup", file)).toMatchObject({ code: 0 });
  const empty = async (): Promise<void> => {
    await nats.kill();
    await nats.loseStore();
    await nats.start();
  };
  return { directory: directory.path, file, run, empty };
}

it("detects a backup with a changed bit or a missing end, and restores nothing of it", async () => {
  await using stack = new AsyncDisposableStack();
  const { directory, file, run, empty } = await threeStreams(stack);
  expect(await run("backup", "--check", file)).toMatchObject({
    code: 0,
    said: expect.stringMatching(/is complete: 3 streams/) as string,
  });
  await empty();
  const whole = await readFile(file);
  const other = join(directory, "other");
  // The first chunk, after its length of four bytes, contains only the time of the backup.
  const from = 4 + whole.readUInt32BE();
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: from, max: whole.length - 1 }),
      fc.nat(7),
      fc.boolean(),
      async (at, bit, cut) => {
        const bytes = Buffer.from(cut ? whole.subarray(0, at) : whole);
        if (!cut) bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << bit), at);
        await writeFile(other, bytes);
        expect(await run("backup", "--check", other)).toMatchObject({ code: 2 });
      },
    ),
    { numRuns: 200 },
  );
  await writeFile(other, Buffer.from(whole).fill(0, whole.length - 200, whole.length - 190));
  expect(await run("restore", other)).toMatchObject({ code: 2 });
  expect(await run("backup", "--check", directory)).toMatchObject({ code: 2 });
  expect(await run("restore", file)).toMatchObject({ code: 0 });
});

it("prints what NATS contains, and that no service may start, after a restore fails in the middle", async () => {
  await using stack = new AsyncDisposableStack();
  const { directory, file, run, empty } = await threeStreams(stack);
  const bad = join(directory, "bad");
  await copyDamaged(file, bad, 2);
  expect(await run("backup", "--check", bad)).toMatchObject({ code: 0 });
  await empty();
  const ended = await run("restore", bad);
  expect(ended.code).toBe(4);
  expect(ended.said).toMatch(
    /^error: restoring KV_\S+: NATS answers: .*; NATS holds 2 of 3 streams\nhint: start no service/,
  );
  expect((await run("restore", file)).said).toMatch(/NATS has 2 streams .*\nhint: .*interrupted restore/);
  await empty();
  expect(await run("restore", file)).toMatchObject({ code: 0 });
});

it("reports a full disk in one line, and leaves no file", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-backup-")));
  const nats = stack.use(await startTestNats({ users: true }));
  const written = await sessionsOf(nats, stack);
  // The bytes are random, because NATS compresses the stream.
  await written.create("long", randomBytes(300_000).toString("base64"));
  const seed = join(directory.path, "backup.nk");
  await writeFile(seed, nats.seedOf("backup"), { mode: 0o600 });
  const env = { ...buildProcessEnv(), MUSTER_NATS_URL: nats.url, MUSTER_NATS_NKEY_FILE: seed };
  const main = join(import.meta.dirname, "../src/main.ts");
  const file = join(directory.path, "backup");
  // The shell limits files to 50 kB or 100 kB, depending on the unit of its blocks.
  const limited = ["-c", 'ulimit -f 100; exec "$@"', "sh", process.execPath, main, "backup", file];
  const { code, stderr } = await promisify(execFile)("sh", limited, { env }).then(
    () => ({ code: 0, stderr: "" }),
    (error: unknown) => error as { code: number; stderr: string },
  );
  expect(stderr).toBe(`error: ${file}.part: EFBIG: file too large, write\n`);
  expect(code).toBe(1);
  expect(await readdir(directory.path)).toEqual(["backup.nk"]);
});

it("refuses to write a file that another backup is writing, which still succeeds", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-backup-"));
  const file = join(directory.path, "backup");
  await using first = await writeBackup(file, 0);
  await expect(writeBackup(file, 0)).rejects.toThrow(`${file}.part exists already`);
  await first.finish();
  await using reader = await readBackup(file);
  expect(await reader.streams()[Symbol.asyncIterator]().next()).toEqual({ done: true, value: undefined });
});

/** Copies a backup with valid checksums, except that NATS refuses one of its streams. */
async function copyDamaged(from: string, to: string, which: number): Promise<void> {
  await using reader = await readBackup(from);
  await using writer = await writeBackup(to, 0);
  let at = 0;
  for await (const { head, chunks } of reader.streams()) {
    await writer.head(head);
    for await (const chunk of chunks) await writer.bytes(at === which ? chunk.map((byte) => byte ^ 0xff) : chunk);
    await writer.endStream();
    at += 1;
  }
  await writer.finish();
}
