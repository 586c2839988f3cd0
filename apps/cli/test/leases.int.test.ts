import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats } from "@muster/bus";
import { readSigner } from "@muster/leases/keys";
import { bucketKeys, buckets, muster as wire } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, buildProcessEnv, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const APPS = join(import.meta.dirname, "../..");
const BIN = join(APPS, "cli/bin/muster.mjs");
/** The limits are long, because these waits take as long as the machine needs. */
const LONG = { timeoutMs: 120_000, everyMs: 50 };
const TEST_MS = 400_000;
const ENGINE_KEY = "5a".repeat(32);
const engine = readSigner("key", ENGINE_KEY);
const { NodeState, NodesComplete } = wire.watch.v1;

type Record = { readonly id: string; readonly phase: string; readonly expiresAt: string; readonly order: object };

const all = new AsyncDisposableStack();
let nats: TestNats;
let directory: string;
let keyFile: string;

beforeAll(async () => {
  nats = all.use(await startTestNats());
  directory = all.use(await mkdtempDisposable(join(tmpdir(), "muster-leases-"))).path;
  keyFile = join(directory, "key");
});
afterAll(() => all.disposeAsync());

/** Starts the binary, as a user does. */
function start(args: readonly string[], input = "") {
  const child = spawn(process.execPath, [BIN, ...args], {
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_LOCAL_FILE: "/nonexistent",
      MUSTER_KEY_FILE: keyFile,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  all.defer(() => end(child));
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  child.stdin.end(input);
  const ended = once(child, "close").then(([code]: unknown[]) => ({ code, out, err }));
  return { ended, err: () => err, interrupt: () => child.kill("SIGINT") };
}

/** Runs the whole command in this process, which saves the start of another one. */
async function muster(args: string, { file = "", key }: { readonly file?: string; readonly key?: string } = {}) {
  const world = { url: nats.url, token: nats.token, keyFile, file, ...(key !== undefined && { key }) };
  const { code, out, err } = await inProcess(args.split(" "), world);
  return { code, out: out.join("\n"), err: err.join("\n") };
}

/** Starts a service of Muster that ends with the test. */
function startService(app: string, env: Readonly<{ [name: string]: string }>): void {
  const child = spawn(process.execPath, [join(APPS, app, "src/main.ts")], {
    env: { ...buildProcessEnv(), MUSTER_NATS_URL: nats.url, MUSTER_NATS_TOKEN: nats.token, ...env },
    stdio: "ignore",
  });
  all.defer(() => end(child));
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

const debug = (id: string, data: string) =>
  `apiVersion: muster.dev/v1\nkind: Lease\nmetadata: { name: ${id} }\nspec: { type: debug, duration: 2h, data: ${data} }\n`;
const machines = (id: string, count: number) =>
  `apiVersion: muster.dev/v1\nkind: Lease\nmetadata: { name: ${id} }\nspec: { type: machine, duration: 1h, data: { pool: n, machines: ${count} } }\n`;

it(
  "makes a key, and finds no leases before there are any",
  async () => {
    const made = await start(["keys", "new"]).ended;
    expect(made).toMatchObject({ code: 0, err: "" });
    expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
    startService("provision-engine", {
      PROVISION_KEY: ENGINE_KEY,
      PROVISION_LOCK_TTL_MS: "10000",
      PROVISION_RETRY_MS: "50",
      PROVISION_RETRY_MOST_MS: "500",
    });
    await until("an engine answers", async () => (await muster("lease get")).code === 0, LONG);
    expect((await muster("lease get")).out).toBe("no leases");
    expect((await muster("leases")).out).toBe("no leases");
  },
  TEST_MS,
);

it(
  "orders a lease, renews and ends it, and shows it with signatures that anybody can verify",
  async () => {
    const dry = await muster("lease order --dry-run -f -", { file: debug("1-2", "{ say: hello }") });
    expect(dry).toMatchObject({ code: 0, err: "" });
    expect(dry.out).toMatch(/^lease\/1-2 would be ordered: ends in \S+ \(dry run: nothing was done\)$/);
    const ordered = await start(["lease", "order", "--wait", "-f", "-"], debug("1-2", "{ say: hello }")).ended;
    expect(ordered.code).toBe(0);
    expect(ordered.out).toMatch(/^lease\/1-2 ordered: ends in \S+\nlease\/1-2 ACTIVE: {"say":"hello"}\n$/);
    // Each phase appears once.
    expect(ordered.err).not.toMatch(/ORDERED|ACTIVE/);
    const before = JSON.parse((await muster("lease get 1-2 -o json")).out) as Record;
    expect(before).toMatchObject({ phase: "ACTIVE", order: { data: '{"say":"hello"}', duration: "2h" } });

    const renewed = await muster("lease renew lease/1-2 --for 1h");
    expect(renewed.code).toBe(0);
    const after = await muster("lease get 1-2 -o json");
    const { expiresAt } = JSON.parse(after.out) as Record;
    expect(Date.parse(expiresAt) - Date.parse(before.expiresAt)).toBe(3_600_000);
    expect(renewed.out).toContain(`lease/1-2 renewed: ends ${expiresAt}, in `);

    const verified = await muster(`lease verify -f - --engine-key ${engine.userId} -o json`, { file: after.out });
    expect(verified.code).toBe(0);
    expect(JSON.parse(verified.out)).toMatchObject(
      ["order", "renewal", "result", "expires"].map((what) => ({ lease: "1-2", what, verdict: "ok" })),
    );
    const altered = await muster("lease verify -f -", { file: after.out.replace("hello", "jello") });
    expect(altered.code).toBe(1);
    expect(altered.out).toMatch(/1-2 +order +wrong/);
    expect(altered.err).toContain("error: 1 signature of 4 wrong");

    expect((await muster("__complete -- lease end 1-")).out).toBe("1-2");
    const again = await muster("lease order -f -", { file: debug("1-2", "{ say: hello }") });
    expect(again.out).toMatch(/^lease\/1-2 was ordered before: ACTIVE, ends in /);
    const other = await muster("lease order -f -", { file: debug("1-2", "{ say: bye }") });
    expect(other.code).toBe(4);
    expect(other.err).toMatch(
      /stdin:3:\d+: lease 1-2 exists already, with other data; .*\nhint: nothing was ordered; .*metadata.name/,
    );

    const ended = await muster("lease end 1-2 --wait");
    expect(ended).toMatchObject({ code: 0, out: "lease/1-2 has ended" });
    const late = await muster("lease renew 1-2 --for 1h");
    expect(late.code).toBe(4);
    expect(late.err).toContain("lease 1-2 has ended (REQUESTED)");
    const over = await muster("lease order -f -", { file: debug("1-2", "{ say: hello }") });
    expect(over.code).toBe(4);
    expect(over.err).toContain("lease 1-2 has ended, and an id is used once");

    const history = async () => {
      const events = JSON.parse((await muster("lease history 1-2 -o json")).out) as { event: string }[];
      return events.map(({ event }) => event).filter((event) => event !== "RESENT");
    };
    await until("its end is published", async () => (await history()).includes("DECOMMISSIONED"), LONG);
    expect(await history()).toEqual(["ORDERED", "PROVISIONED", "RENEWED", "ENDING", "DECOMMISSIONED"]);
    const left = await until(
      "its data are gone",
      async () => {
        const { out } = await muster("lease get 1-2 -o json");
        return (JSON.parse(out) as { readonly order: { readonly data: string } }).order.data === "" && out;
      },
      LONG,
    );
    const checked = await muster(`lease verify -f - --engine-key ${engine.userId}`, { file: left });
    expect(checked.code).toBe(1);
    expect(checked.err).toContain(
      "error: 1 lease of 1 cannot be verified\nhint: the engine no longer keeps the signed data",
    );
    expect(checked.out).toMatch(/1-2 +order +gone .* no longer keeps these data/);
    expect(checked.out).toMatch(/1-2 +result +gone /);
    expect(checked.out).toMatch(/1-2 +end request +ok /);
  },
  TEST_MS,
);

it(
  "refuses changes of another user, and says why a lease failed",
  async () => {
    expect((await muster("lease order --wait -f -", { file: debug("2-1", "1") })).code).toBe(0);
    const key = "77".repeat(32);
    for (const line of ["lease end 2-1", "lease renew 2-1 --for 1h"]) {
      const { code, err } = await muster(line, { key });
      expect(code).toBe(4);
      expect(err).toMatch(/lease 2-1 is of user .* and the key is of .*\nhint: --key-file/);
      expect(err).not.toContain(key);
    }
    const mine = await muster("lease get --mine", { key });
    expect(mine.out).toBe("no leases");
    const missing = await muster("lease get 9-9");
    expect(missing.code).toBe(4);
    expect(missing.err).toContain("hint: `muster lease get` shows those that exist");

    const volume = debug("2-2", "{ size: 1, type: ssd }").replace("debug", "volume");
    const failed = await muster("lease order --wait -f -", { file: volume });
    expect(failed.code).toBe(1);
    expect(failed.err).toMatch(/error: lease 2-2 is FAILED: .*volume/);
    expect(failed.err.match(/FAILED/g)).toHaveLength(1);
    const idsOf = async (line: string) =>
      (JSON.parse((await muster(`lease get ${line} -o json`)).out) as Record[]).map(({ id }) => id);
    expect(await idsOf("--phase FAILED")).toEqual(["2-2"]);
    expect(await idsOf("--active")).toEqual(["2-1"]);
    expect(await idsOf("--phase failed,ended --active")).toEqual(["2-1", "2-2", "1-2"]);
    expect((await muster("lease get --mine")).out).toMatch(/^LEASE +TYPE +PHASE +ENDS +AGE +WHY\n2-1 /);
  },
  TEST_MS,
);

it(
  "takes over what an older lease has, by the same file",
  async () => {
    const file = debug("6-1", "{ say: hello }");
    expect((await muster("lease order --wait -f -", { file })).code).toBe(0);
    const taken = await muster("lease order --reference lease/6-1 --wait -o json -f -", { file });
    expect(taken.code).toBe(0);
    const [heir] = JSON.parse(taken.out) as Record[];
    expect(heir?.id).not.toBe("6-1");
    const id = heir?.id ?? "";
    expect((await muster(`lease get ${id}`)).out).toMatch(/instead of +6-1/);
    const older = await muster("lease get 6-1");
    expect(older.out).toContain("ENDED");
    expect(older.out).toContain(`MIGRATED: to lease ${id}`);
    expect((await muster(`lease history ${id}`)).out).toContain("from lease 6-1");
    const again = await muster("lease order --reference 6-1 --wait -f -", { file });
    expect(again.code).toBe(1);
    expect(again.err).toContain(`upgrade refused: lease 6-1 was taken over by lease ${id}; refer to that one`);
    const two = await muster("lease order --reference 6-1 -f -", { file: `${file}---\n${debug("6-3", "1")}` });
    expect(two.code).toBe(2);
    expect(two.err).toContain("--reference is for one lease, and the files have 2");
    expect((await muster(`lease end ${id} --wait`)).code).toBe(0);
  },
  TEST_MS,
);

it(
  "seals secrets of an order before it is sent, says so, and never shows them",
  async () => {
    const said: string[] = [];
    const store = (id: string, engineOf = "main") =>
      `apiVersion: muster.dev/v1\nkind: Lease\nmetadata: { name: ${id} }\nspec: { engine: ${engineOf}, type: zdb, duration: 2h, data: { size: 1, mode: user, disk_type: ssd, password: very-secret } }\n`;
    const runLine = async (line: string, file = "") => {
      const ended = await muster(line, { file });
      said.push(ended.out, ended.err);
      return ended;
    };
    const dry = await runLine("lease order --dry-run -f -", store("5-1"));
    expect(dry.out).toContain("(dry run: nothing was done; sealed to engine main: password)");
    for (const command of ["lease order", "apply"]) {
      const other = await runLine(`${command} -f - --engine-key ${"z".repeat(44)}`, store("5-1"));
      expect(other.code).toBe(4);
      expect(other.err).toContain(`error: engine main has the key ${engine.userId}, and not zzz`);
    }
    // The engine runs without a cluster.
    const ordered = await runLine(`lease order --wait -o json -f - --engine-key ${engine.userId}`, store("5-1"));
    expect(ordered.code).toBe(1);
    expect(ordered.err).toMatch(/lease 5-1 is FAILED: /);
    const dryRecord = await runLine("lease order --dry-run -o json -f -", store("5-3"));
    const [record] = JSON.parse(dryRecord.out) as [{ readonly order: { readonly data: string } }];
    expect(JSON.parse(record.order.data)).toMatchObject({
      size: 1,
      password: expect.stringMatching(/^muster-sealed-v1:/) as string,
    });
    expect((await runLine("apply -f -", store("5-1"))).out).toContain("lease/5-1 had failed, and is retried");
    const notKept = async () => /data +not kept, because it is over/.test((await runLine("lease get 5-1")).out);
    await until("its end is published", notKept, LONG);
    expect((await runLine("apply -f -", store("5-1"))).out).toContain("lease/5-1 had failed, and is retried");
    for (const line of ["lease get -o json", "lease get 5-1 -o yaml", "explain lease/5-1", "lease history 5-1 -o json"])
      expect((await runLine(line)).code).toBe(0);
    expect(said.join("\n")).not.toContain("very-secret");

    const nowhere = await runLine("lease order -f -", store("5-2", "nowhere"));
    expect(nowhere).toMatchObject({ code: 3, out: "" });
    expect(nowhere.err).toContain(
      'error: stdin:4:17: no engine "nowhere" answers; these engines do: main\nhint: nothing was ordered; set spec.engine to the id of the intended engine',
    );
  },
  TEST_MS,
);

it(
  "knows leases wherever work is asked for: apply, get, describe, explain, wait, events and doctor",
  async () => {
    const file = debug("4-1", "{ say: hello }");
    const dry = await muster("apply --dry-run -f -", { file });
    expect(dry.out).toMatch(/^lease\/4-1 would be ordered: .*dry run/);
    const unnamed = await muster("lease order --dry-run -f -", { file: file.replace("metadata: { name: 4-1 }\n", "") });
    expect(unnamed.out).toMatch(/^a lease of type debug would be ordered: ends in \S+ \(dry run/);
    const applied = await muster("apply --wait -f -", { file });
    expect(applied).toMatchObject({ code: 0 });
    expect(applied.out).toMatch(/^lease\/4-1 ordered: ends in .*\nlease\/4-1 ACTIVE: /);
    expect((await muster("apply -f -", { file })).out).toMatch(/^lease\/4-1 was ordered before: ACTIVE/);
    const nameless = await muster("apply -f -", { file: file.replace("metadata: { name: 4-1 }\n", "") });
    expect(nameless.code).toBe(2);
    expect(nameless.err).toMatch(/must have a name, NUMBER-NUMBER/);
    const wrong = await muster("apply -f -", {
      file: debug("4-2", "{ size: 0, type: sdd }").replace("debug", "volume"),
    });
    expect(wrong.code).toBe(2);
    expect(wrong.err).toMatch(
      /stdin:4:\d+: spec.data.size: at least 1 GiB is needed\n.*spec.data.type: ssd or hdd is needed/,
    );

    expect((await muster("get leases")).out).toMatch(/^LEASE +TYPE +PHASE[^]*\n4-1 +debug +ACTIVE/);
    expect(JSON.parse((await muster("get lease/4-1 -o json")).out)).toMatchObject({ id: "4-1", phase: "ACTIVE" });
    expect((await muster("describe lease 4-1")).out).toMatch(/^lease +4-1\nphase +ACTIVE/);
    expect((await muster("explain lease/4-1")).out).toMatch(/^lease 4-1 ACTIVE\n.*it ends in /);
    expect((await muster("wait lease/4-1 --for=condition=active")).out).toBe("lease/4-1 condition met");
    expect((await muster("__complete -- wait lease/4-")).out).toBe("lease/4-1");

    for (const slip of [
      "lease get foo",
      "lease get --phase foo",
      "get lease foo",
      "wait lease/foo --for=delete",
      "lease end 4-",
      "lease get --secret kubeconfig",
    ])
      expect(await muster(slip)).toMatchObject({ code: 2, out: "" });
    expect(await muster("wait lease/4-99 --for=delete")).toMatchObject({ code: 4, out: "" });
    const twice = await muster("apply -f -", { file: `${file}---\n${file}---\n${file.replace("2h", "200000d")}` });
    expect(twice.err).toMatch(/spec.duration: is longer than 106751d[^]*lease 4-1 is given twice/);

    for (const [line, instead] of [
      ["delete lease/4-1", "muster lease end 4-1"],
      ["delete lease 4-1", "muster lease end 4-1"],
      ["cancel lease/4-1", "muster lease end 4-1"],
      ["logs lease/4-1", "kubectl -n NAMESPACE logs deployment/lease-4-1"],
      ["lease delete 4-1", "muster lease end ID"],
      ["lease list", "muster lease get"],
    ] as const) {
      const { code, err } = await muster(line);
      expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(instead) as string });
    }
    const empty = await inProcess(["lease", "get", ""], { url: nats.url, token: nats.token });
    expect(empty.err[0]).toBe('error: "" is no id of a lease: NUMBER-NUMBER is needed');
    const noRecord = await muster("lease verify -f -", { file });
    expect(noRecord.err).toMatch(
      /is no output of `muster lease get ID -o json`: it has no order\n[^]*hint: `muster lease get ID -o json > FILE`/,
    );
    const text = await muster("lease verify -f -", { file: `not JSON\n${(await muster("lease get -o json")).out}` });
    expect(text.err.match(/not valid YAML/g)?.length).toBeLessThan(5);
    const unsigned = (await muster("lease get 4-1 -o json")).out.replace(/,\s*"signature": "[^"]*"/, "");
    expect((await muster("lease verify -f -", { file: unsigned })).err).toContain(
      "order.signature: must be a string, and is missing",
    );
    expect((await muster("lease get --phase active -o json")).out).toContain('"id": "4-1"');

    const followed = muster("events -f lease/4-1 -o json");
    expect((await muster("lease end 4-1")).code).toBe(0);
    expect((await muster("wait lease/4-1 --for=delete --timeout 2m")).code).toBe(0);
    const late = await muster("wait lease/4-1 --for=condition=ACTIVE");
    expect(late.code).toBe(1);
    expect(late.err).toMatch(/can no longer be met: lease 4-1 is ENDED: REQUESTED/);
    const events = (await followed).out.split("\n").map((line) => (JSON.parse(line) as { event: string }).event);
    expect(events.filter((event) => event !== "RESENT")).toEqual([
      "ORDERED",
      "PROVISIONED",
      "ENDING",
      "DECOMMISSIONED",
    ]);
    expect((await muster("explain lease/4-1")).out).toMatch(/^lease 4-1 ENDED: REQUESTED/);

    const doctor = await muster("doctor");
    expect(doctor.out).toMatch(/ok +provision-engine +1 replica[^]*ok +leases +engine main: \d+ active/);
  },
  TEST_MS,
);

it(
  "leases whole machines; Ctrl-C leaves an order that waits for them to itself",
  async () => {
    const bus = all.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
    const nodes = await openBucket(bus.connection, {
      name: buckets.nodes,
      codec: { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes },
    });
    for (const name of ["n-0", "n-1"]) {
      const state = { name, labels: { pool: "n" }, ready: true, schedulable: true };
      await nodes.create(name, NodeState.encode(state).finish());
    }
    await nodes.create(bucketKeys.nodesComplete, NodesComplete.encode({ atMs: Date.now() }).finish());
    startService("reservation-manager", { RESERVATION_LOCK_TTL_MS: "10000" });
    await until("the ledger answers", async () => (await muster("pools")).out.includes("n "), LONG);

    const many = await muster("lease order --dry-run -f -", {
      file: `${machines("3-0", 2)}---\n${machines("3-1", 3)}`,
    });
    expect(many.code).toBe(1);
    expect(many.out).toMatch(
      /^lease\/3-0 would be ordered: .*\nlease\/3-1 would be FAILED immediately: .*3.*\(dry run/,
    );
    const two = await muster("lease order --wait -f -", { file: machines("3-1", 2) });
    expect(two.code).toBe(0);
    expect(two.out).toMatch(/ACTIVE: .*"node":"n-0".*"node":"n-1"|ACTIVE: .*"node":"n-1".*"node":"n-0"/);

    const one = start(["lease", "order", "--wait", "-o", "json", "-f", "-"], machines("3-2", 1));
    await until("the lease waits", () => /lease\/3-2 PROVISIONING: .*n/.test(one.err()), LONG);
    expect((await muster("explain lease/3-2")).out).toMatch(/^lease 3-2 PROVISIONING: POOL_AVAILABILITY\n/);
    const unknown = await muster("explain lease/9-9");
    expect(unknown.code).toBe(4);
    expect(unknown.err).toContain("lease 9-9 does not exist");
    one.interrupt();
    const left = await one.ended;
    expect(left.code).toBe(130);
    expect(JSON.parse(left.out)).toMatchObject([{ outcome: "ORDERED", id: "3-2" }]);
    expect(left.err).toContain("left: lease 3-2 continues; `muster lease get 3-2` shows its state");

    expect((await muster("lease end 3-1")).out).toBe("lease/3-1 ends, and its objects are taken down");
    const taken = await muster("lease order --wait -f -", { file: machines("3-2", 1) });
    expect(taken.code).toBe(0);
    expect(taken.out).toMatch(/lease\/3-2 ACTIVE: .*"node":"n-/);
    expect((await muster("lease end 3-2 --wait")).code).toBe(0);
  },
  TEST_MS,
);

it(
  "never shows the private key",
  async () => {
    const secret = (await readFile(keyFile, "utf8")).trim();
    const outputs = await Promise.all(["keys show", "lease get -o yaml", "lease get 2-1"].map((line) => muster(line)));
    expect(outputs.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(outputs.map(({ out, err }) => out + err).join("\n")).not.toContain(secret);
  },
  TEST_MS,
);

it(
  "points from a record that cannot be read to what explains it, and not to the command that failed",
  async () => {
    await using bus = await connectNats({ url: nats.url, token: nats.token, name: "test" });
    await bus.connection.request("$KV.muster-leases.9-9", new Uint8Array([255]), { timeout: 5000 });
    for (const line of ["lease get 9-9", "lease renew 9-9 --for 1h"]) {
      const { code, err } = await muster(line);
      expect(code).not.toBe(0);
      expect(err).toContain("error: the record of lease 9-9 cannot be read: ");
      expect(err).toContain("hint: `muster doctor` lists the unreadable records, and the versions that read them");
    }
  },
  TEST_MS,
);
