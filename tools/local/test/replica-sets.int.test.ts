import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";
import { runMuster, type Ended } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

/** Each command and each pod is a process, so a busy machine is slow. */
const TIMEOUT_MS = 480_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ pools: { workers: 4, drivers: 1 } });
}, TIMEOUT_MS);
afterAll(() => world[Symbol.asyncDispose](), TIMEOUT_MS);

function run(line: string): Promise<Ended> {
  return runMuster(world, line.split(" "));
}

/** Runs the command, which must exit with 0; returns its output. */
async function done(line: string): Promise<string> {
  const { code, output } = await run(line);
  expect(code, `${line}: ${output}`).toBe(0);
  return output;
}

/** Runs the command, which must exit with this code and print this text. */
async function fails(line: string, code: number, says: RegExp): Promise<void> {
  const ended = await run(line);
  expect(ended.output).toMatch(says);
  expect(ended.code, ended.output).toBe(code);
}

/** Writes the document of a set on pool `workers` into a file. */
async function fileOf(name: string, { podId = name, replicas = 2, version = "1" } = {}): Promise<string> {
  const template = { spec: { terminationGracePeriodSeconds: 1, containers: [container(version)] } };
  const spec = { podId, replicas, nodeSelector: "pool=workers", template };
  return fileWith(
    name,
    JSON.stringify({ apiVersion: "muster.dev/v1", kind: "PinnedReplicaSet", metadata: { name }, spec }),
  );
}

function container(version: string): object {
  const env = [{ name: "VERSION", value: version }];
  return { name: "main", image: "scripted", command: ["sleep", "100000"], env };
}

async function fileWith(name: string, text: string): Promise<string> {
  const file = join(dirname(world.stack.kubeconfig), `${name}.yaml`);
  await writeFile(file, text);
  return file;
}

it(
  "creates a set from its example, changes it, explains it, and deletes it by force only",
  async () => {
    const example = join(ROOT, "examples/pinned-replica-set.yaml");
    expect(await done(`apply -f ${example} --wait`)).toMatch(/replica-set\/web created[^]*replica-set\/web ready/);
    expect(await done(`apply -f ${example}`)).toBe("replica-set/web unchanged\n");
    expect(await done("get rs web")).toMatch(/NAME +PHASE +WANTED[^]*web +READY +2 +2 +2 +4/);
    expect(await done("explain pinned-replica-set/web")).toMatch(
      /READY[^]*workers-2 +FREE[^]*drivers-0\) does not match/,
    );
    expect(await done("describe replica-set/web")).toMatch(/nodes +pool=workers; 4 eligible/);
    await fails("delete web", 4, /muster delete web --force/);
    expect(await done("delete web --force --wait")).toMatch(/replica-set\/web deleted/);
    await fails("get rs wep", 4, /replica set wep does not exist/);
  },
  TIMEOUT_MS,
);

it(
  "reports why fewer pods run than desired",
  async () => {
    await done(`apply -f ${await fileOf("many")} --wait`);
    expect(await done("scale many --replicas 9 --current-replicas 2")).toMatch(/9 wanted/);
    await fails("scale many --replicas 3 --current-replicas 2", 4, /muster get replica-set many/);
    expect(await done("wait rs/many --for=condition=Troubled --timeout 5m")).toMatch(/condition met/);
    await fails(
      "wait rs/many --for=condition=Ready --timeout 1s",
      1,
      /timed out after 1s waiting for condition Ready[^]*muster explain replica-set\/many/,
    );
    expect(await done("explain rs/many")).toMatch(/TOO_FEW_NODES[^]*5 more nodes are needed[^]*next: /);
  },
  TIMEOUT_MS,
);

it(
  "rolls out: refuses a minimum that cannot be kept, continues from a canary, and reports each step",
  async () => {
    await done(`apply -f ${await fileOf("roll")} --wait`);
    const next = await fileOf("roll-2", { podId: "roll", version: "2" });
    await fails(`roll roll -f ${next} --minimum 2`, 4, /--minimum: 2 can never be kept/);
    await fails(`roll roll -f ${await fileOf("roll-3")} --minimum 1`, 2, /write `podId: roll`/);
    expect(await done(`roll roll -f ${next} --canary 1 --minimum 1 --follow`)).toMatch(
      /roll\/roll-2 complete: roll-2 has 1 wanted/,
    );
    expect(await done("get rs roll")).toMatch(/roll +\S+ +1 /);
    expect(await done("rollout roll --to roll-2 --replicas 2 --minimum 1 --follow")).toMatch(
      /complete: roll-2 has 2 wanted/,
    );
    await fails("roll status roll-2", 4, /muster audit roll-2/);
    expect(await done("wait rs/roll --for=delete --timeout 5m")).toMatch(/condition met/);
    expect(await done("audit roll-2")).toMatch(/CREATED[^]*ROLLING_UPDATE_COMPLETION/);
  },
  TIMEOUT_MS,
);

it(
  "pauses a rollout, continues it after Ctrl-C, and undoes a canary completely",
  async () => {
    await done(`apply -f ${await fileOf("back", { replicas: 3 })} --wait`);
    const next = await fileOf("back-2", { podId: "back", version: "2", replicas: 3 });
    await done(`roll back -f ${next} --minimum 2 --replicas 2 --leave-old --delay 1h`);
    const left = await runMuster(world, ["roll", "status", "back"], /RUNNING: back-2 has 1 of 2/);
    expect(left.output).toMatch(/muster roll undo back-2/);
    expect(left.code).toBe(130);
    expect(await done("rollout pause back")).toMatch(/is paused/);
    expect(await done("wait roll/back-2 --for=condition=Paused")).toMatch(/condition met/);
    expect(await done("explain rs/back")).toMatch(/IN_ROLL[^]*it is paused/);
    await fails("scale back --replicas 1", 4, /muster roll status back-2/);
    // An undo does not wait for the delay of one hour between steps.
    expect(await done("roll undo back-2 --follow --timeout 5m")).toMatch(/complete: back has 3 wanted/);
  },
  TIMEOUT_MS,
);

it(
  "moves a replica to the named node, and holds transfers",
  async () => {
    await done(`apply -f ${await fileOf("move")} --wait`);
    expect(await done("transfer move --hold --because repair")).toMatch(/leaves no node until/);
    await fails("transfer move --from workers-0", 4, /: repair[^]*muster transfer move --release/);
    await done("transfer move --release");
    await fails("transfer move --from workers-0 --to workers-1", 4, /move has a replica there/);
    expect(await done("transfer rs/move --from workers-0 --to workers-3")).toMatch(/leaves workers-0 for workers-3/);
    await done("wait rs/move --for=condition=Transferring=false --timeout 5m");
    expect(await done("get rs move -o json")).toMatch(/"node": "workers-3"/);
    expect(await done("disable move")).toMatch(/disabled/);
    expect(await done("enable move")).toMatch(/enabled/);
    await done("delete move --orphan");
  },
  TIMEOUT_MS,
);

it(
  "accepts every example of docs/replica-sets.md, and shows the position where the cluster refuses a template",
  async () => {
    const page = await readFile(join(ROOT, "docs/replica-sets.md"), "utf8");
    const examples = [...page.matchAll(/```yaml\n([^]*?)```/g)].map(([, text = ""]) => text);
    expect(examples).toHaveLength(3);
    const file = await fileWith("docs", examples.join("---\n"));
    expect(await done(`apply -f ${file} --dry-run`)).toMatch(/cache created[^]*cache-2 created[^]*agent created/);
    const wrong = await fileWith("wrong", (examples[0] ?? "").replace("name: main", "name: Main"));
    await fails(`apply -f ${wrong}`, 2, /wrong\.yaml:\d+:\d+: spec\.template\S*: /);
    const misspelt = await fileWith("misspelt", (examples[0] ?? "").replace("command:", "comand:"));
    await fails(`apply -f ${misspelt}`, 2, /misspelt\.yaml:\d+:\d+: .*comand/);
  },
  TIMEOUT_MS,
);
