import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildProcessEnv } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeSessionSuite, buildSessionYaml } from "./session-suite.ts";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

let world: SessionWorld;
beforeAll(async () => {
  world = await startSessionWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

describeSessionSuite("nats");

describe("muster dead-letters", () => {
  it("shows unhandled messages with their reasons, sends them again, and removes them", async () => {
    const [first, second] = await world.deadLetter(["lost-a", "lost-b"]);
    const list = await world.muster(["dead-letters", "list"]).ended;
    expect(list.stdout).toMatch(
      /ID +AREA +AGE +TRIES +SUBJECT +REASON\n\d+ +lease .*muster\.cmd\.lease\.main\.lost-a\.order +.*no such lease/,
    );
    const shown = await world.muster(["dead-letters", "show", String(first), "-o", "json"]).ended;
    expect(JSON.parse(shown.stdout)).toMatchObject({ id: first, area: "lease", message: { id: "lost-a" } });
    const doctor = await world.muster(["doctor"]).ended;
    expect(doctor.stdout).toContain("2 messages could not be handled");
    const again = await world.muster(["dead-letters", "replay", String(first)]).ended;
    expect(again.stdout).toBe(`letter ${first}: sent again\n`);
    const dropped = await world.muster(["dead-letters", "drop", String(second), "9999"]).ended;
    expect(dropped).toMatchObject({
      code: 4,
      stdout: `letter ${second}: dropped\n`,
      stderr:
        "error: dead letter 9999 does not exist\n1 of 2 letters failed\nhint: `muster dead-letters list` shows those that exist\n",
    });
    const none = await world.muster(["dead-letters", "list"]).ended;
    expect(none.stdout).toBe("no dead letters\n");
  });

  it("refuses an invalid id, and names the dead letter that does not exist", async () => {
    const wrong = await world.muster(["dead-letters", "show", "x"]).ended;
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.stderr).toContain("The id of a letter is a whole number.");
    const absent = await world.muster(["dead-letters", "replay", "9999"]).ended;
    expect(absent).toMatchObject({ code: 4 });
    expect(absent.stderr).toBe(
      "error: dead letter 9999 does not exist\n1 of 1 letter failed\nhint: `muster dead-letters list` shows those that exist\n",
    );
  });
});

describe("muster completion", () => {
  it.each(["bash", "zsh", "fish"])("prints a script for %s that calls the command itself", async (shell) => {
    const { stdout, code } = await world.muster(["completion", shell]).ended;
    expect(stdout).toContain("muster __complete -- ");
    expect(code).toBe(0);
  });

  it("completes commands, choices, and the names of sessions in bash", async () => {
    await world.muster(["run", "-", "--detach"], { input: buildSessionYaml("tabbed-session") }).ended;
    const script = (await world.muster(["completion", "bash"]).ended).stdout;
    const offers = async (line: string): Promise<string[]> => {
      const program = `${script}
        muster() { "${process.execPath}" "${join(import.meta.dirname, "../src/main.ts")}" "$@"; }
        COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _muster; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout } = await promisify(execFile)("bash", ["-c", program], {
        encoding: "utf8",
        env: { ...buildProcessEnv(), MUSTER_NATS_URL: world.url, MUSTER_NATS_TOKEN: world.token },
      });
      return stdout.trim().split("\n");
    };
    expect(await offers("muster ex")).toEqual(["explain"]);
    expect(await offers("muster get sessions -o ''")).toEqual(["table", "json", "yaml"]);
    expect(await offers("muster describe session tabb")).toEqual(["tabbed-session"]);
    expect(await offers("muster logs tabbed-session dr")).toEqual(["driver"]);
    expect(await offers("muster run ''")).toEqual([""]);
  });
});

describe("the connection", () => {
  it("finds the local stack by its file, with the token in a file of its own", async () => {
    const tokenFile = await world.file("token", `${world.token}\n`);
    const local = { natsUrl: world.url, natsTokenFile: tokenFile, kubeconfig: "", pid: process.pid };
    await writeFile(join(world.directory, "local.json"), JSON.stringify(local));
    const env = { MUSTER_LOCAL_FILE: join(world.directory, "local.json"), MUSTER_NATS_URL: "", MUSTER_NATS_TOKEN: "" };
    expect(await world.muster(["pools"], { env }).ended).toMatchObject({ code: 0 });
  });

  it("prints the remedy when no server answers", async () => {
    const { code, stderr } = await world.process(["pools", "--nats-url", "nats://127.0.0.1:1"]).ended;
    expect(stderr).toBe(
      "error: cannot connect to nats://127.0.0.1:1 (option --nats-url): connection refused\nhint: check that a NATS server runs there, that it knows MUSTER_NATS_NKEY_FILE or MUSTER_NATS_TOKEN, and that MUSTER_NATS_CA_FILE signed its certificate\n",
    );
    expect(code).toBe(3);
  });

  it("prints the remedy when containers have ended and their folder remains", async () => {
    const local = JSON.stringify({ natsUrl: "nats://127.0.0.1:1" });
    const env = { MUSTER_LOCAL_FILE: await world.file("gone.json", local), MUSTER_NATS_URL: "" };
    const { code, stderr } = await world.muster(["pools"], { env }).ended;
    expect(stderr).toMatch(/\(local stack\): connection refused\nhint: `docker compose up --wait` starts/);
    expect(stderr).toContain(`remove ${world.directory}\n`);
    expect(code).toBe(3);
  });

  it("reports a wrong token", async () => {
    const { code, stderr } = await world.muster(["pools"], { env: { MUSTER_NATS_TOKEN: "wrong" } }).ended;
    expect(stderr).toMatch(/the server does not take MUSTER_NATS_TOKEN: .*\nhint: check .* that it knows/);
    expect(code).toBe(3);
  });

  it.each([
    ["is cut off", "{"],
    ["says of no server", "{}"],
    ["has a number for a name", JSON.stringify({ natsUrl: "nats://127.0.0.1:1", natsNkeyFile: 1 })],
  ])("connects to no other server when the file of the local stack %s", async (title, content) => {
    const file = await world.file(`${title}.json`, content);
    const env = { MUSTER_LOCAL_FILE: file, MUSTER_NATS_URL: "" };
    const { code, stderr } = await world.muster(["pools"], { env }).ended;
    expect(stderr).toMatch(
      /^error: .*\.json does not contain the address of the local stack: .*\nhint: `docker compose up setup`/,
    );
    expect(code).toBe(2);
    // Resources named on the command line need no file.
    expect(await world.muster(["pools"], { env: { MUSTER_LOCAL_FILE: file } }).ended).toMatchObject({ code: 0 });
  });

  it("prints the remedy for the keys of the local stack, and does not mention its logs", async () => {
    const tokenFile = await world.file("wrong-token", "wrong\n");
    const local = JSON.stringify({ natsUrl: world.url, natsTokenFile: tokenFile, kubeconfig: "", pid: process.pid });
    const env = {
      MUSTER_LOCAL_FILE: await world.file("stale.json", local),
      MUSTER_NATS_URL: "",
      MUSTER_NATS_TOKEN: "",
    };
    const { code, stderr } = await world.muster(["pools"], { env }).ended;
    expect(stderr).toMatch(
      /does not take .*\nhint: the keys of the local stack are not, or no longer, those of its server/,
    );
    expect(code).toBe(3);
  });
});

it.each([
  ["an unknown command", ["frobnicate"]],
  ["an unknown option", ["pools", "--wide"]],
  ["a missing file", ["run", "/nonexistent/file.yaml"]],
  ["a duration without a unit", ["run", "x.yaml", "--timeout", "10"]],
  ["a form that does not exist", ["pools", "-o", "xml"]],
  ["no command", []],
])("exits with 2 for %s", async (_title, args) => {
  const start = args.length === 0 ? world.process : world.muster;
  const { code, stdout, stderr } = await start(args).ended;
  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/error: |Usage: /);
});

it.each([
  ["an unknown name", ["get", "session", "LONG"]],
  ["an unknown pool", ["get", "pool", "LONG"]],
  ["an unknown command", ["LONG"]],
  ["a form that does not exist", ["pools", "-o", "LONG"]],
  ["a document", ["run", "-"]],
])("shortens the overlong words of %s", async (_title, args) => {
  const long = `${"a".repeat(150)}${"b".repeat(150)}`;
  const words = args.map((word) => (word === "LONG" ? long : word));
  const { stderr } = await world.muster(words, { input: buildSessionYaml(long) }).ended;
  expect(stderr).toMatch(/error: /);
  expect(stderr).toMatch(/aaaa…bbbb/);
  expect(stderr).not.toContain("a".repeat(65));
});

it("prints the schema exactly as in the file that editors use", async () => {
  const { stdout } = await world.process(["schema"]).ended;
  expect(stdout).toBe(readFileSync(join(import.meta.dirname, "../../../schemas/session.schema.json"), "utf8"));
});

it("version prints the version of each service, warns of an unsupported one, and prints its own without a server", async () => {
  const { stdout, stderr, code } = await world.muster(["version"]).ended;
  expect(stdout).toMatch(
    /^muster \d\S+\nnode \S+\nreservation-manager 9\.8\.7 \(leader only\)\nsession-controller 9\.8\.7 /,
  );
  expect(stderr).toContain(
    "warning: reservation-manager, session-controller, watcher: more than one minor version apart",
  );
  expect(code).toBe(0);
  const away = world.muster(["version", "-o", "json"], { env: { MUSTER_NATS_URL: "nats://127.0.0.1:1" } });
  expect(await away.ended).toMatchObject({ code: 3, stderr: expect.stringContaining("cannot connect") as unknown });
  expect(JSON.parse(away.stdout())).toEqual({ muster: expect.any(String) as unknown, node: process.versions.node });
});

it("doctor reports what is healthy, and the next step for each problem", async () => {
  const healthy = await world.muster(["doctor"]).ended;
  expect(healthy.stdout).toMatch(
    /ok +jetstream[^]*ok +session-controller +1 replica, version 9\.8\.7[^]*ok +watcher's view +3 pods and 6 nodes[^]*ok +pools +drivers 1\/2, workers 0\/4/,
  );
  expect(healthy.code).toBe(0);
  await world.stopServices();
  expect(await world.muster(["get", "sessions"]).ended).toMatchObject({
    code: 3,
    stderr:
      "error: the session-controller service does not answer: no replica of it is connected\nhint: `muster doctor` shows what is missing\n",
  });
  const sick = await world.muster(["doctor"]).ended;
  expect(sick.stdout).toMatch(
    /failed +session-controller +no replica answers[^]*What to do next:[^]*session-controller: start session-controller/,
  );
  expect(sick.code).toBe(1);
});
