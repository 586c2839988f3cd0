import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { findNatsServer, NATS_USERS, permissionsOf } from "@muster/nats-server";
import { ReservationService, subjects } from "@muster/proto";
import { certificateAuthority, signedCertificate } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { usersConf, writeKeys } from "../nats-users.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy");
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-users-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("finds deploy/nats/users.conf as `npm run nats-users` writes it", async () => {
  expect(await readFile(join(DEPLOY, "nats/users.conf"), "utf8")).toBe(usersConf());
});

it("lets each service ask the ledger what its source asks it, and nothing else", async () => {
  for (const user of NATS_USERS) {
    if (user === "cli" || user === "backup" || user === "reservation-manager") continue;
    const source = await sourceOf(user);
    const asked = Object.entries(ReservationService.methods)
      .filter(([name]) => source.includes(`.${name}(`))
      .map(([, { verb }]) => subjects.request("reservation", verb));
    const allowed = permissionsOf(user).publish.filter((subject) => subject.startsWith("muster.req.reservation."));
    expect(allowed, `${user}: libs/nats-server/src/rights.ts`).toEqual(asked.toSorted());
  }
});

/** Text of what the app runs. */
async function sourceOf(app: string): Promise<string> {
  const directory = join(DEPLOY, "../apps", app, "src");
  const files = await readdir(directory, { recursive: true });
  const own = files.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  return (await Promise.all(own.map((name) => readFile(join(directory, name), "utf8")))).join("\n");
}

it("makes keys with which nats-server takes the configuration, and loses none that are there", async () => {
  await writeKeys(directory);
  await expect(writeKeys(directory)).rejects.toThrow(/EEXIST/);
  expect((await stat(join(directory, "nkeys/watcher.nk"))).mode & 0o777).toBe(0o600);
  await cp(join(DEPLOY, "nats"), directory, { recursive: true });
  const made = await signedCertificate(await certificateAuthority("test"), { commonName: "nats", use: "server" });
  await writeFile(join(directory, "tls.crt"), made.cert);
  await writeFile(join(directory, "tls.key"), made.key);
  const conf = await readFile(join(directory, "nats.conf"), "utf8");
  const here = conf.replaceAll("/etc/nats-tls/", `${directory}/`).replace("/data", join(directory, "data"));
  await writeFile(join(directory, "nats.conf"), here);
  const { path } = await findNatsServer({ env: process.env });
  const env = { ...process.env, ...parseEnv(await readFile(join(directory, "public.env"), "utf8")) };
  const check = (given: NodeJS.ProcessEnv) =>
    promisify(execFile)(path, ["-t", "-c", join(directory, "nats.conf")], { env: given });
  expect((await check(env)).stderr).toContain("is valid");
  // Without its key a user is nobody, and the server does not start.
  await expect(check(process.env)).rejects.toThrow(/MUSTER_NATS_KEY_/);
});
