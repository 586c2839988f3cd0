import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readKeyFile } from "./key-file.ts";

const SEED = "0123456789abcdef".repeat(4);

it("reads a key that is its owner's alone, and no other", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-key-"));
  const path = join(directory.path, "key");
  await writeFile(path, `${SEED}\n`, { mode: 0o600 });
  expect((await readKeyFile(path)).publicKey).toHaveLength(32);
  for (const mode of [0o640, 0o604, 0o660, 0o666]) {
    await chmod(path, mode);
    await expect(readKeyFile(path)).rejects.toThrow("chmod 0600");
  }
  await chmod(path, 0o400);
  expect((await readKeyFile(path)).publicKey).toHaveLength(32);
});

it("says what is wrong with a file, and nothing of what is in it", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-key-"));
  const path = join(directory.path, "key");
  await expect(readKeyFile(path)).rejects.toThrow(path);
  await writeFile(path, SEED.slice(2), { mode: 0o600 });
  const error = await readKeyFile(path).catch((each: unknown) => String(each));
  expect(error).toContain("is no private key");
  expect(error).not.toContain(SEED.slice(2, 12));
});
