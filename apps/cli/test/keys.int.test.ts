import { chmod, mkdir, mkdtempDisposable, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const NOWHERE = { url: "nats://127.0.0.1:1", token: "" };

it("creates a key in a folder and a file that only its owner can read, and prints only the public key", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-keys-"));
  const keyFile = join(directory.path, "muster/key");
  const world = { ...NOWHERE, keyFile };
  const made = await inProcess(["keys", "new", "-o", "json"], world);
  expect(made).toMatchObject({ code: 0, err: [] });
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
  expect((await stat(join(directory.path, "muster"))).mode & 0o777).toBe(0o700);
  const shown = await inProcess(["keys", "show", "-o", "json"], world);
  expect(shown).toEqual(made);
  const stored = JSON.parse(shown.out.join("\n")) as { user: string };
  expect(stored).toEqual({
    user: expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{43,44}$/) as string,
    publicKey: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    from: keyFile,
  });
  const secret = (await readFile(keyFile, "utf8")).trim();
  expect([...made.out, ...shown.out].join("\n")).not.toContain(secret);

  const again = await inProcess(["keys", "new"], world);
  expect(again.code).toBe(2);
  expect(again.err.join("\n")).toMatch(/error: .* exists, and was not overwritten\nhint: `muster keys show`/);
  expect((await readFile(keyFile, "utf8")).trim()).toBe(secret);

  const elsewhere = await inProcess(["keys", "show"], { ...NOWHERE, key: secret });
  expect(elsewhere.out).toEqual([
    `user         ${stored.user}`,
    expect.stringMatching(/^public key {3}[0-9a-f]{64}$/),
    "private key  in MUSTER_KEY",
  ]);
});

it("refuses a readable, an invalid and a missing key, and prints the remedy", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-keys-"));
  const keyFile = join(directory.path, "key");
  const world = { ...NOWHERE, keyFile };
  const missing = await inProcess(["keys", "show"], world);
  expect(missing.code).toBe(2);
  expect(missing.err).toEqual([
    `error: no key exists at ${keyFile}`,
    "hint: `muster keys new` creates one; MUSTER_KEY_FILE or MUSTER_KEY provides an existing one",
  ]);
  await inProcess(["keys", "new"], world);
  await chmod(keyFile, 0o640);
  const open = await inProcess(["keys", "show"], world);
  expect(open.code).toBe(2);
  expect(open.err[0]).toContain("others may use it, its mode is 0640: chmod 0600 is needed");
  const none = await inProcess(["keys", "show"], { ...NOWHERE, key: "0123456789secret" });
  expect(none.code).toBe(2);
  expect(none.err[0]).toBe("error: MUSTER_KEY is no private key: 32 or 64 bytes in hexadecimal are needed");
});

it("reports why no key can be created at a path", async () => {
  // No folder can be created below /proc, and `recursive` of Node retries there forever.
  const nowhere = await inProcess(["keys", "new", "--key-file", "/proc/x/y"], NOWHERE);
  expect(nowhere).toMatchObject({ code: 2, out: [] });
  expect(nowhere.err[0]).toMatch(/^error: the folder \/proc\/x of the key file cannot be created: .*no such file/);

  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-keys-"));
  const empty = join(directory.path, "empty");
  await writeFile(empty, "");
  const interrupted = await inProcess(["keys", "new", "--key-file", empty], NOWHERE);
  expect(interrupted.code).toBe(2);
  expect(interrupted.err.join("\n")).toMatch(/exists, and is empty: .*\nhint: remove it with `rm .*empty`/);

  const folder = join(directory.path, "folder");
  await mkdir(folder);
  const isFolder = await inProcess(["keys", "new", "--key-file", folder], NOWHERE);
  expect(isFolder.err[0]).toBe(`error: ${folder} is a folder, and a file is needed`);
});
