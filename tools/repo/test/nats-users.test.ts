import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { findNatsServer, NATS_USERS, buildPermissions } from "@muster/nats-server";
import { ReservationService, services, subjects } from "@muster/proto";
import { makeCertificateAuthority, makeSignedCertificate } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { buildUsersConf, writeKeys } from "../nats-users.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy");
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-users-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("deploy/nats/users.conf is the output of `npm run nats-users`", async () => {
  expect(await readFile(join(DEPLOY, "nats/users.conf"), "utf8")).toBe(buildUsersConf());
});

/** Ledger methods that functions of libs/ledger-client call. */
const CALLS_OF_CLIENT: Readonly<Record<string, readonly string[]>> = {
  openLedgerClient: ["reserve", "unreserve", "getReservation", "listReservations"],
  makeLedgerCalls: ["reserve", "checkReservation", "unreserve", "getReservation", "listReservations"],
  makeExplainCalls: ["explainReservation", "listReservations"],
};

it("allows each service exactly the ledger methods that its source calls", async () => {
  for (const user of NATS_USERS) {
    // The gateway has a separate test.
    if (user === "gateway" || user === "cli" || user === "backup" || user === "reservation-manager") continue;
    const source = await sourceOf(user);
    const byClient = Object.entries(CALLS_OF_CLIENT).flatMap(([name, calls]) =>
      new RegExp(`(?:[^.\\w]|\\.\\.\\.)${name}\\(`).test(source) ? calls : [],
    );
    const called = Object.entries(ReservationService.methods)
      .filter(([name]) => source.includes(`.${name}(`) || byClient.includes(name))
      .map(([, { verb }]) => subjects.request("reservation", verb))
      .flatMap((request) => [request, subjects.requestOfAnyReplica(request)]);
    const allowed = buildPermissions(user).publish.filter((subject) => subject.startsWith("muster.req.reservation."));
    expect(allowed, `${user}: libs/nats-server/src/rights.ts`).toEqual(called.toSorted());
  }
});

it("allows the gateway exactly the methods that its table of resources names", async () => {
  const table = await readFile(join(DEPLOY, "../libs/gateway-api/src/resources.ts"), "utf8");
  const called = table.split("  defineResource({").flatMap((row) => {
    const service = services.find(({ name }) => row.includes(`service: ${name.split(".").at(-1)},`));
    const methods: Readonly<Record<string, { readonly verb: string }>> = service?.methods ?? {};
    const calls = [...row.matchAll(/call: "(\w+)"/g)].map(([, call = ""]) => call);
    return calls.map((call) => subjects.request(service?.area ?? "", methods[call]?.verb ?? ""));
  });
  const requests = [...new Set(called)].flatMap((request) => [request, subjects.requestOfAnyReplica(request)]);
  const allowed = buildPermissions("gateway").publish.filter((subject) => subject.startsWith("muster.req."));
  expect(allowed, "libs/nats-server/src/rights.ts").toEqual(requests.toSorted());
});

/** The source of the app, without tests. */
async function sourceOf(app: string): Promise<string> {
  const directory = join(DEPLOY, "../apps", app, "src");
  const files = await readdir(directory, { recursive: true });
  const own = files.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  return (await Promise.all(own.map((name) => readFile(join(directory, name), "utf8")))).join("\n");
}

it("creates keys with which nats-server accepts the configuration, and keeps existing ones", async () => {
  expect(await writeKeys(directory)).toEqual({ made: NATS_USERS, kept: [] });
  expect((await stat(join(directory, "nkeys/watcher.nk"))).mode & 0o777).toBe(0o600);
  await cp(join(DEPLOY, "nats"), directory, { recursive: true });
  const made = await makeSignedCertificate(await makeCertificateAuthority("test"), {
    commonName: "nats",
    use: "server",
  });
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
  // The server does not start when the key of a user is missing.
  await expect(check(process.env)).rejects.toThrow(/MUSTER_NATS_KEY_/);
});

it("keeps existing keys, and creates keys of new users", async () => {
  await writeKeys(directory);
  const [before, seed] = [await publicKeys(), await readFile(join(directory, "nkeys/watcher.nk"), "utf8")];
  await rm(join(directory, "nkeys/node-scaler.nk"));
  // The seed of this user is kept elsewhere; only its public key is here.
  await rm(join(directory, "nkeys/cli.nk"));
  const { NODE_SCALER, ...others } = before;
  await writeFile(join(directory, "public.env"), envOf(others));
  const { made, kept } = await writeKeys(directory);
  expect(made).toEqual(["node-scaler"]);
  expect(kept).toEqual(NATS_USERS.filter((user) => user !== "node-scaler"));
  const after = await publicKeys();
  expect(after).toEqual({ ...before, NODE_SCALER: after["NODE_SCALER"] });
  expect(after["NODE_SCALER"]).not.toBe(NODE_SCALER);
  expect(await readFile(join(directory, "nkeys/watcher.nk"), "utf8")).toBe(seed);
  expect((await readdir(join(directory, "nkeys"))).includes("cli.nk")).toBe(false);
});

it("names the file without a key, and changes nothing", async () => {
  await writeKeys(directory);
  await writeFile(join(directory, "nkeys/watcher.nk"), "garbage\n");
  await expect(writeKeys(directory)).rejects.toThrow(/nkeys\/watcher\.nk is not the seed of an nkey/);
  expect(await readFile(join(directory, "nkeys/watcher.nk"), "utf8")).toBe("garbage\n");
});

/** Public keys by user, named as their variables. */
async function publicKeys(): Promise<Record<string, string | undefined>> {
  const variables = parseEnv(await readFile(join(directory, "public.env"), "utf8"));
  return Object.fromEntries(
    Object.entries(variables).map(([name, key]) => [name.replace("MUSTER_NATS_KEY_", ""), key]),
  );
}

function envOf(keys: Record<string, string | undefined>): string {
  return Object.entries(keys)
    .map(([user, key = ""]) => `MUSTER_NATS_KEY_${user}=${key}\n`)
    .join("");
}
