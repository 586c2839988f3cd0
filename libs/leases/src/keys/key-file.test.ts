import { chmod, mkdtempDisposable, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { makeKeyFile, readKeyFile } from "./key-file.ts";

const SEED = "0123456789abcdef".repeat(4);

it("reads a key that only its owner may access, and no other", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-key-"));
  const path = join(directory.path, "key");
  await writeFile(path, `${SEED}\n`, { mode: 0o600 });
  expect((await readKeyFile("KEY", path)).publicKey).toHaveLength(32);
  for (const mode of [0o640, 0o604, 0o660, 0o666]) {
    await chmod(path, mode);
    await expect(readKeyFile("KEY", path)).rejects.toThrow("chmod 0600");
  }
  await chmod(path, 0o400);
  expect((await readKeyFile("KEY", path)).publicKey).toHaveLength(32);
});

it("reports the problem of a file, and none of its content", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-key-"));
  const path = join(directory.path, "key");
  await expect(readKeyFile("KEY", path)).rejects.toThrow(path);
  await writeFile(path, SEED.slice(2), { mode: 0o600 });
  const error = await readKeyFile("KEY", path).catch((each: unknown) => String(each));
  expect(error).toContain("is no private key");
  expect(error).not.toContain(SEED.slice(2, 12));
});

it("creates a key that only its owner may read, and never overwrites a file", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-key-"));
  const path = join(directory.path, "key");
  const made = await makeKeyFile("KEY", path);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await readKeyFile("KEY", path)).userId).toBe(made.userId);
  const before = await readFile(path, "utf8");
  await expect(makeKeyFile("KEY", path)).rejects.toMatchObject({ fault: { code: "already_exists", id: path } });
  expect(await readFile(path, "utf8")).toBe(before);
  await expect(makeKeyFile("KEY", join(directory.path, "none", "key"))).rejects.toThrow("no such file");
});
