import { mkdtempDisposable, readdir, stat, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats } from "@muster/bus";
import { buckets, subjects } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { natsServer, type TestNats } from "@muster/testkit";
import { expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const text = {
  encode: (value: string) => new TextEncoder().encode(value),
  decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes),
};

async function sessionsOf(nats: TestNats, stack: AsyncDisposableStack): Promise<Bucket<string>> {
  const user = "session-controller";
  const nkey = { seed: nats.seedOf(user) };
  const bus = stack.use(await connectNats({ url: nats.url, nkey, name: "test", inboxPrefix: subjects.inbox(user) }));
  return openBucket(bus.connection, { name: buckets.sessions, codec: text });
}

it("copies everything into one file, and makes of it the same on a server that has lost all, revisions included", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-backup-")));
  const nats = stack.use(await natsServer({ users: true }));
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
  // More than one piece of the transfer.
  const long = "x".repeat(400_000);
  await written.create("first", "a");
  const revision = await written.create("long", long);

  const asCli = await inProcess(["backup", file], { url: nats.url, token: "", nkey: nats.seedOf("cli") });
  expect(asCli).toMatchObject({ code: 3, err: [expect.any(String), expect.stringMatching(/backup\.nk/) as string] });
  expect(await readdir(directory.path)).toEqual([]);

  expect(await run("backup", file)).toMatchObject({ code: 0 });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await run("backup", file)).toMatchObject({ code: 2, said: expect.stringMatching(/there already/) as string });
  expect(await run("restore", file)).toMatchObject({
    code: 4,
    said: expect.stringMatching(/KV_muster-sessions\nhint: stop the services/) as string,
  });

  await nats.kill();
  await nats.loseStore();
  await nats.start();
  expect(await run("restore", file)).toMatchObject({ code: 0 });
  const restored = await sessionsOf(nats, stack);
  expect(await restored.get("long")).toMatchObject({ value: long, revision });
  expect(await restored.update("long", "b", revision)).toBe(revision + 1);

  await truncate(file, (await stat(file)).size - 1);
  await nats.kill();
  await nats.loseStore();
  await nats.start();
  expect(await run("restore", file)).toMatchObject({
    code: 2,
    said: expect.stringMatching(/no whole backup/) as string,
  });
});
