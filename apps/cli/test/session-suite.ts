import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AWAY, startSessionWorld, type SessionWorld, type Way } from "./session-world.ts";

export function buildSessionYaml(name: string): string {
  return `apiVersion: muster.dev/v1
kind: Session
metadata: { name: ${name} }
spec:
  timeout: 90s
  scenario: { seconds: 1 }
  components:
    - { name: server, kind: server, pool: workers, image: i, readyPort: 10000 }
    - { name: driver, kind: driver, pool: drivers, image: i, env: [{ name: A, value: b }] }
`;
}

/** The operations of users on sessions, the same on each way to the services. */
export function describeSessionSuite(way: Way): void {
  let world: SessionWorld;
  beforeAll(async () => {
    world = await startSessionWorld(way);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** Starts \`muster run\` on a session of this name and waits until it is submitted. */
  async function runSession(name: string, ...options: string[]) {
    return submitSession(world.muster, name, options);
  }

  /** Starts \`muster run\` in a separate process. */
  async function processSession(name: string, ...options: string[]) {
    return submitSession(world.process, name, options);
  }

  async function submitSession(start: SessionWorld["muster"], name: string, options: readonly string[]) {
    const cli = start(["run", await world.file(`${name}.yaml`, buildSessionYaml(name)), ...options]);
    await until("the session is submitted", () => world.sessions.has(name));
    const mayLeave = options.some((option) => option === "--detach" || option === "--timeout");
    if (!mayLeave) await until("the CLI follows it", () => cli.stderr().includes("QUEUE"));
    return cli;
  }

  describe("muster run --dry-run", () => {
    const plan = async (name: string, pool = "workers") => {
      const text = buildSessionYaml(name).replace("pool: workers", `pool: ${pool}`);
      const cli = world.muster(["run", "--dry-run", await world.file(`${name}.yaml`, text)]);
      const { code, stdout: out, stderr: err } = await cli.ended;
      return { code, err, out };
    };

    it("prints the session, and the reason why it would wait, and submits nothing", async () => {
      expect(await plan("planned")).toMatchObject({
        code: 0,
        err: "",
        out: expect.stringContaining("name: planned") as string,
      });
      expect(await plan("waits-for-one")).toMatchObject({
        code: 0,
        err: "warning: session waits-for-one: it would wait: POOL_AVAILABILITY: pool workers has no machine free\n",
      });
      expect(world.sessions.has("planned")).toBe(false);
    });

    it("refuses what the service would refuse, or end without machines", async () => {
      const { code, err, out } = await plan("lost", "no-such-pool");
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err).toMatch(/lost\.yaml:\d+:\d+: spec: pool no-such-pool does not exist; known pools: drivers, workers/);
      await runSession("present", "--detach");
      expect((await plan("present")).err).toMatch(
        /present\.yaml:3:\d+: metadata\.name: session present exists already[^]*muster cancel session\/present/,
      );
    });
  });

  describe("muster run", () => {
    it("submits the file, follows the session, and prints its result", async () => {
      const cli = await processSession("good");
      const { spec } = world.sessions.get("good")!;
      expect(spec).toMatchObject({ timeoutMs: 90_000, scenarioJson: '{"seconds":1}' });
      expect(
        spec?.components?.map(({ name, kind, readyPort, env }) => ({ name, kind, readyPort, env: env?.length })),
      ).toEqual([
        { name: "server", kind: 2, readyPort: 10_000, env: 0 },
        { name: "driver", kind: 1, readyPort: 0, env: 1 },
      ]);
      world.move("good", "ACCEPT", { why: "taken by e1" });
      world.move("good", "RUN", { components: { state: "READY", node: "n1" } });
      await until("the run is seen", () => cli.stderr().includes("server  READY  on n1"));
      world.move("good", "DONE", {
        resultJson: '{"requests":12,"latencyMs":{"p50":0.5}}',
        warnings: [{ code: "LOGS_LOST", message: "of server" }],
      });
      const { code, stdout, stderr } = await cli.ended;
      expect(stderr).toMatch(/QUEUE {2}submitted[^]*ACCEPT {2}taken by e1[^]*RUN[^]*DONE/);
      expect(stdout).toMatch(
        /^session good DONE after \d+\.\ds\nwarning: LOGS_LOST: of server\n\nRESULT +VALUE\nrequests +12\nlatencyMs.p50 +0.5\n$/,
      );
      expect(code).toBe(0);
    });

    it("exits with 1 and shows the last lines of the component that failed", async () => {
      const cli = await processSession("bad");
      world.logs.set("bad/server", "one\nthe disk is full ✗\n");
      world.move("bad", "ERROR", {
        reason: "COMPONENT_FAILED",
        why: "server exited with 3",
        components: { state: "FAILED", exitCode: 3 },
      });
      const { code, stdout, stderr } = await cli.ended;
      expect(stdout).toMatch(/^session bad ERROR after \d+\.\ds: COMPONENT_FAILED: server exited with 3\n$/);
      expect(stderr).toContain(
        "last lines of server (`muster logs bad server` shows all):\n  one\n  the disk is full ✗\n",
      );
      expect(code).toBe(1);
    });

    it("shows the line that names the cause, even if the stack below exceeds the shown lines", async () => {
      const cli = await runSession("deep");
      const frames = Array.from({ length: 12 }, (_, index) => `    at frame${index}`);
      world.logs.set("deep/server", ["Error: the disk is full", ...frames].join("\n"));
      world.move("deep", "ERROR", { components: { state: "FAILED", exitCode: 1 } });
      const { stderr } = await cli.ended;
      expect(stderr).toContain("  Error: the disk is full\n  ...\n   at frame2\n");
    });

    it("shows the log of a component that never became ready, or reports that it is empty", async () => {
      const cli = await runSession("unready");
      world.logs.set("unready/server", "listening on 127.0.0.1:10001\n");
      world.logs.set("unready/driver", "");
      world.move("unready", "ERROR", { reason: "TIMEOUT", components: { state: "NOT_READY" } });
      const { stderr } = await cli.ended;
      expect(stderr).toContain("last lines of server (`muster logs unready server` shows all):\n  listening on");
      expect(stderr).toContain("driver has written nothing; `muster logs unready driver -c CONTAINER` shows");
    });

    it("does not report an empty log for a component whose log was lost", async () => {
      const cli = await runSession("lost-logs");
      world.logs.set("lost-logs/driver", "");
      const warnings = [{ code: "LOGS_LOST", message: "lost-logs-driver: the pod was gone before its log was kept" }];
      world.move("lost-logs", "ERROR", { warnings, components: { state: "FAILED" } });
      const { stderr } = await cli.ended;
      expect(stderr).toContain("driver  FAILED");
      expect(stderr).not.toContain("has written nothing");
    });

    it("prints nothing but data on standard output with -o json", async () => {
      const cli = await runSession("machine", "-o", "json");
      world.move("machine", "DONE", { resultJson: '{"requests":1}' });
      const { code, stdout } = await cli.ended;
      const [session] = JSON.parse(stdout) as Record<string, unknown>[];
      expect(session).toMatchObject({
        name: "machine",
        phase: "DONE",
        result: { requests: 1 },
        spec: { timeout: "1m30s", scenario: { seconds: 1 } },
      });
      expect(session?.["createdAt"]).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      expect(code).toBe(0);
    });

    it("prints why a session waits when the reason lasts", async () => {
      const cli = await runSession("patient");
      world.move("patient", "QUEUE", { waitingBecause: "pool workers has 0 machines free, 1 are needed" });
      await until("the reason is shown", () => cli.stderr().includes("waits: pool workers has 0 machines free"));
      world.move("patient", "DONE", { waitingBecause: "" });
      expect(await cli.ended).toMatchObject({ code: 0 });
    });

    it("cancels the session at the first interrupt and waits for its end", async () => {
      const cli = await processSession("cancelled");
      cli.interrupt();
      await until("the cancel has arrived", () => world.sessions.get("cancelled")?.cancelRequested);
      await until("the reason is printed", () =>
        cli.stderr().includes("cancelling cancelled and waiting for the end; Ctrl-C again leaves immediately"),
      );
      world.move("cancelled", "CANCELLED", { why: "asked to" });
      const { code, stdout } = await cli.ended;
      expect(stdout).toMatch(/^session cancelled CANCELLED after/);
      expect(code).toBe(130);
    });

    it("exits at the second interrupt and reports that the session continues", async () => {
      const cli = await processSession("left");
      cli.interrupt();
      await until("the cancel has arrived", () => world.sessions.get("left")?.cancelRequested);
      cli.interrupt();
      const { code, stderr } = await cli.ended;
      // The request has arrived. The words depend on whether its answer arrived before the second interrupt.
      expect(stderr).toMatch(
        /left: (?:session left is being cancelled|no service confirmed that session left is being cancelled); `muster get session left` shows it/,
      );
      expect(code).toBe(130);
    });

    it("stops following at its timeout with 1, and the session continues", async () => {
      const cli = await runSession("slow", "--timeout", "3s");
      const { code, stderr } = await cli.ended;
      expect(stderr).toContain(
        "left after 3s: session slow continues; `muster get session slow` shows it, `muster cancel slow` ends it",
      );
      expect(code).toBe(1);
      expect(world.sessions.get("slow")?.cancelRequested).not.toBe(true);
    });

    it("submits and returns with --detach, reads standard input, and makes names from generateName", async () => {
      const input = buildSessionYaml("x").replace("name: x", "generateName: gen-");
      const { code, stdout } = await world.process(["run", "-", "--detach"], { input }).ended;
      expect(code).toBe(0);
      expect(stdout).toMatch(/^session gen-[a-z0-9]{5} submitted/);
      expect([...world.sessions.keys()].some((name) => name.startsWith("gen-"))).toBe(true);
    });

    it("submits nothing unless every document of every file is right, and names every problem", async () => {
      const right = await world.file("right.yaml", buildSessionYaml("untouched"));
      const wrong = await world.file("wrong.yaml", buildSessionYaml("b").replace("pool: workers", "pol: workers"));
      const { code, stderr } = await world.muster(["run", right, wrong, right]).ended;
      expect(code).toBe(2);
      expect(stderr.split("\n")).toEqual([
        `error: ${wrong}:8:7: spec.components[0]: lacks pool`,
        `error: ${wrong}:8:37: spec.components[0]: unknown field "pol"; did you mean "pool"?`,
        `error: ${right}:3:19: session untouched is given twice, first at ${right}:3:19`,
        "error: 3 problems found",
        "hint: nothing was submitted; examples/ has valid files",
        "",
      ]);
      expect(world.sessions.has("untouched")).toBe(false);
    });

    it("reports a name that two documents have at the second one", async () => {
      const file = await world.file("twins.yaml", `${buildSessionYaml("twin")}---\n${buildSessionYaml("twin")}`);
      const { code, stderr } = await world.muster(["run", file]).ended;
      expect(code).toBe(2);
      expect(stderr).toContain(`error: ${file}:13:19: session twin is given twice, first at ${file}:3:19\n`);
    });

    it("exits with 4 when a service refuses a session", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("taken") }).ended;
      const { code, stderr } = await world.muster(["run", "-", "-d"], { input: buildSessionYaml("taken") }).ended;
      expect(code).toBe(4);
      expect(stderr).toBe(
        "error: submitting session taken: session taken exists already\nhint: choose another name, or let generateName make one\n",
      );
    });
  });

  describe("requests", () => {
    it("lists sessions over several pages, and shows one", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("listed-a") }).ended;
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("listed-b") }).ended;
      const table = await world.muster(["get", "sessions"]).ended;
      expect(table.stdout).toMatch(/^NAME +PHASE +MACHINES +AGE +TOOK +WHY\n/);
      expect(table.stdout).toMatch(/listed-a +QUEUE +2[^]*listed-b/);
      const one = await world.muster(["get", "session", "listed-a", "-o", "json"]).ended;
      expect(JSON.parse(one.stdout)).toMatchObject({ name: "listed-a", phase: "QUEUE" });
      const described = await world.muster(["describe", "session", "listed-a"]).ended;
      expect(described.stdout).toMatch(/SESSION +listed-a[^]*EVENT[^]*QUEUE +submitted[^]*COMPONENT[^]*driver/);
    });

    it("reports that a session does not exist, and the command that lists sessions", async () => {
      const { code, stderr } = await world.muster(["describe", "session", "absent"]).ended;
      expect(stderr).toBe("error: session absent does not exist\nhint: `muster get sessions` shows those that exist\n");
      expect(code).toBe(4);
    });

    it("waits until a session enters a state, and ends immediately when the session can no longer enter it", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("hoped-for") }).ended;
      const cli = world.muster(["wait", "hoped-for", "--for=condition=RUN", "--timeout", "1m"]);
      world.move("hoped-for", "RUN");
      expect(await cli.ended).toMatchObject({ code: 0, stdout: "session/hoped-for condition met\n", stderr: "" });
      world.move("hoped-for", "ERROR", { reason: "DRIVER_FAILED", why: "the driver ended with 3" });
      const { code, stdout, stderr } = await world.muster(["wait", "hoped-for", "--for=condition=done"]).ended;
      expect(stderr).toBe(
        "error: condition done can no longer be met: session hoped-for is ERROR: DRIVER_FAILED: the driver ended with 3\nhint: `muster explain hoped-for` shows why\n",
      );
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    });

    it("leaves a wait at the first interrupt", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("left-alone") }).ended;
      const cli = world.process(["wait", "left-alone", "--for=condition=DONE", "--timeout", "1m"]);
      await until("the session waits", () => world.watched.has("left-alone"));
      cli.interrupt();
      expect(await cli.ended).toMatchObject({ code: 130, stdout: "", stderr: "" });
    });

    it("lists pools and reservations", async () => {
      const pools = await world.muster(["pools"]).ended;
      expect(pools.stdout).toBe(
        "POOL     AVAILABLE  CAPACITY  HELD  UNUSABLE  WAITING  WHY UNUSABLE\ndrivers  1          2         1     1         0        1 CORDONED\nworkers  0          4         4     0         2\n",
      );
      const near = await world.muster(["get", "pool", "worker"]).ended;
      expect(near).toMatchObject({
        code: 4,
        stderr: 'error: pool worker does not exist\nhint: did you mean "workers"?\n',
      });
      const far = await world.muster(["get", "pool", "gpu"]).ended;
      expect(far.stderr).toBe("error: pool gpu does not exist\nhint: known pools: drivers, workers\n");
      const reservation = await world.muster(["get", "reservation", "waiting", "-o", "yaml"]).ended;
      expect(reservation.stdout).toContain("state: waiting");
      expect((await world.muster(["get", "reservations"]).ended).stdout).toContain(
        "POOL_AVAILABILITY drivers: 2 needed, 1 free; 3 ahead",
      );
    });

    it("prints the whole log of a component as it is, and of all components line by line", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("chatty") }).ended;
      world.logs.set("chatty/server", "grüße\nzwei");
      world.logs.set("chatty/driver", "drive\n");
      world.move("chatty", "DONE");
      expect((await world.muster(["logs", "chatty", "server"]).ended).stdout).toBe("grüße\nzwei");
      expect((await world.muster(["logs", "chatty"]).ended).stdout).toBe(
        "server | grüße\nserver | zwei\ndriver | drive\n",
      );
      const wrong = await world.muster(["logs", "chatty", "sever"]).ended;
      expect(wrong).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(
          /^error: session chatty has no component sever\nhint: did you mean "server"\? it has .*server.*\n$/,
        ) as string,
      });
    });

    it("prints all replicas of a component, each line after its name", async () => {
      const yaml = buildSessionYaml("replicated").replace("name: server,", "name: server, replicas: 2,");
      await world.muster(["run", "--detach", await world.file("replicated.yaml", yaml)]).ended;
      world.logs.set("replicated/server-0", "zero\n");
      world.logs.set("replicated/server-1", "one\n");
      const { stdout, code } = await world.muster(["logs", "replicated", "server"]).ended;
      expect(stdout).toBe("server-0 | zero\nserver-1 | one\n");
      expect(code).toBe(0);
      expect((await world.muster(["logs", "replicated", "server-1"]).ended).stdout).toBe("one\n");
    });

    it("does not take a component for a replica of another whose name is its prefix", async () => {
      const yaml = buildSessionYaml("numbered")
        .replace("name: server,", "name: server, replicas: 2,")
        .replace("name: driver,", "name: server-5,");
      await world.muster(["run", "--detach", await world.file("numbered.yaml", yaml)]).ended;
      for (const name of ["server-0", "server-1", "server-5"]) world.logs.set(`numbered/${name}`, `${name}\n`);
      const { stdout } = await world.muster(["logs", "numbered", "server"]).ended;
      expect(stdout).toBe("server-0 | server-0\nserver-1 | server-1\n");
    });

    it("prints the log of another container, such as of a failed preparation", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("prepared") }).ended;
      world.logs.set("prepared/server", "serving\n");
      world.logs.set("prepared/server/prepare", "no data\n");
      expect((await world.muster(["logs", "prepared", "server", "-c", "prepare"]).ended).stdout).toBe("no data\n");
      const { stderr } = await world.muster(["logs", "prepared", "server", "--container", "other"]).ended;
      expect(stderr).toContain("server has no log");
    });

    it("follows a log from before it exists until the component has ended", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("followed") }).ended;
      const cli = world.muster(["logs", "-f", "followed", "driver"]);
      world.logs.set("followed/driver", "first\n");
      await until("the first line is shown", () => cli.stdout() === "first\n");
      world.logs.set("followed/driver", "first\nsecond\n");
      world.move("followed", "DONE");
      expect(await cli.ended).toMatchObject({ code: 0, stdout: "first\nsecond\n" });
    });

    it("follows a log across a time in which it is unavailable", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("awaited") }).ended;
      world.logs.set("awaited/driver", "first\n");
      const cli = world.muster(["logs", "-f", "awaited", "driver"]);
      await until("the first line is shown", () => cli.stdout() === "first\n");
      world.logs.set("awaited/driver", AWAY);
      await until("the log was refused twice", () => world.refusals.count >= 2);
      world.logs.set("awaited/driver", "first\nsecond\n");
      world.move("awaited", "DONE");
      expect(await cli.ended).toMatchObject({ code: 0, stdout: "first\nsecond\n" });
    });

    it("deletes a finished session, and prints the next step for an unfinished one", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("passing") }).ended;
      const refused = await world.muster(["delete", "session/passing"]).ended;
      expect(refused).toMatchObject({
        code: 4,
        stderr:
          "error: session passing is not over: it is QUEUE\nhint: `muster cancel session/passing` ends it; then delete it\n",
      });
      world.move("passing", "DONE");
      const { code, stdout } = await world.muster(["delete", "session", "passing"]).ended;
      expect(stdout).toBe("session passing is deleted\n");
      expect(code).toBe(0);
      expect(world.sessions.has("passing")).toBe(false);
    });

    it("requests the end of a session", async () => {
      await world.muster(["run", "-", "-d"], { input: buildSessionYaml("unwanted") }).ended;
      const { code, stdout } = await world.muster(["cancel", "unwanted"]).ended;
      expect(stdout).toContain("session unwanted is being cancelled");
      expect(code).toBe(0);
      expect(world.sessions.get("unwanted")?.cancelRequested).toBe(true);
    });
  });

  describe("muster explain", () => {
    it("shows why a session waits, with numbers and the holders of the machines", async () => {
      await runSession("waiting", "--detach");
      const { stdout, code } = await world.muster(["explain", "waiting"]).ended;
      expect(stdout).toMatch(
        /^session waiting QUEUE for \d+\.\ds: POOL_AVAILABILITY\n {2}pool drivers has 1 machine free/,
      );
      expect(stdout).toContain("next: mend the pool\n");
      expect(stdout).toMatch(/drivers +session\/busy +1 +\d+m\d\ds +holds/);
      expect(stdout).toMatch(/drivers +- +1 +- +NOT_READY d-3/);
      expect(stdout).toMatch(/drivers +pod web\/shop and 1 more +1 +- +FOREIGN_USE d-4/);
      expect(stdout).toContain("queue: 3 requests ahead (3 of priority 5)\n");
      expect(code).toBe(0);
      const machine = await world.muster(["explain", "waiting", "-o", "json"]).ended;
      expect(JSON.parse(machine.stdout)).toMatchObject({
        code: "POOL_AVAILABILITY",
        reservation: { pools: [{ pool: "drivers", holders: [{ owner: "session/busy", machines: 1 }] }] },
      });
    });

    it("shows how a finished session ended", async () => {
      await runSession("over", "--detach");
      world.move("over", "ERROR", { reason: "COMPONENT_FAILED", why: "server exited with 3" });
      const { stdout } = await world.muster(["explain", "over"]).ended;
      expect(stdout).toMatch(
        /^session over ERROR since [^]*: FINISHED\n {2}it is over: server exited with 3\nnext: muster logs over\n$/,
      );
    });
  });

  it("writes every time of every command in ISO 8601, never as milliseconds", async () => {
    await runSession("timed", "--detach");
    const [letter] = await world.deadLetter(["timed-letter"]);
    const lines = [
      ...["get sessions", "get session timed", "describe session timed", "get reservations", "get reservation waiting"],
      ...["explain waiting", "explain timed", "explain lease/train", "events", "events timed", "pools", "get pools"],
      ...["cancel timed", ...(way === "nats" ? ["dead-letters list", `dead-letters show ${letter}`, "doctor"] : [])],
    ];
    for (const line of lines) {
      const { stdout } = await world.muster([...line.split(" "), "-o", "json"]).ended;
      expect(JSON.parse(stdout), line).toBeTruthy();
      expect(stdout, line).not.toMatch(/(?:at|since|until)Ms":/i);
      expect(stdout, line).not.toMatch(/: 1[67]\d{11}\b/);
    }
    if (way === "nats") await world.muster(["dead-letters", "drop", String(letter)]).ended;
  });

  describe("muster explain of other owners", () => {
    it("reports the ledger's reservation of a lease", async () => {
      const { stdout, code } = await world.muster(["explain", "lease/train"]).ended;
      expect(stdout).toMatch(
        /^lease\/train granted for \S+: GRANTED\n {2}it holds 1 machine\n\nCOMPONENT +POOL +NODE\nworker-0 +drivers +d-1\n$/,
      );
      expect(code).toBe(0);
      const machine = await world.muster(["explain", "lease/train", "-o", "json"]).ended;
      expect(JSON.parse(machine.stdout)).toMatchObject({ owner: "lease/train", code: "GRANTED" });
    });

    it("accepts a session by its kind", async () => {
      const session = await world.muster(["explain", "session/absent"]).ended;
      expect(session).toMatchObject({
        code: 4,
        stderr: expect.stringContaining("session absent does not exist") as string,
      });
    });

    it("reports that an owner holds and requests nothing, and that a kind does not exist", async () => {
      const none = await world.muster(["explain", "lease/l-1"]).ended;
      expect(none).toMatchObject({
        code: 4,
        stderr:
          "error: lease l-1 holds no machines and waits for none\nhint: `muster get reservations` lists the owners that do\n",
      });
      const unknown = await world.muster(["explain", "jop/train"]).ended;
      expect(unknown).toMatchObject({
        code: 2,
        stderr: 'error: "jop" is no kind of owner; did you mean "job/train"?\n',
      });
    });
  });

  describe("muster events", () => {
    it("lists the events of one session or of all, oldest first", async () => {
      await runSession("listed-a", "--detach");
      await nextMillisecond();
      await runSession("listed-b", "--detach");
      await nextMillisecond();
      world.move("listed-a", "DONE", {});
      const one = await world.muster(["events", "listed-a", "-o", "json"]).ended;
      expect(JSON.parse(one.stdout)).toMatchObject([
        { session: "listed-a", phase: "QUEUE" },
        { session: "listed-a", phase: "DONE" },
      ]);
      const all = await world.muster(["events"]).ended;
      expect(all.stdout).toMatch(/listed-a[^]*QUEUE[^]*listed-b[^]*QUEUE[^]*listed-a[^]*DONE/);
    });

    it("follows a session until it is over and prints each event once", async () => {
      await runSession("listed-live", "--detach");
      const cli = world.muster(["events", "-f", "listed-live", "-o", "json"]);
      await until("the first event is printed", () => cli.stdout().includes("QUEUE"));
      world.move("listed-live", "RUN", {});
      world.announce("listed-live");
      await until("the second event is printed", () => cli.stdout().includes("RUN"));
      world.move("listed-live", "DONE", {});
      world.announce("listed-live");
      const { stdout, code } = await cli.ended;
      const phases = stdout
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { phase: string }).phase);
      expect(phases).toEqual(["QUEUE", "RUN", "DONE"]);
      expect(code).toBe(0);
    });
  });
}

/** Waits for the next millisecond, because events of several sessions are sorted by their times in milliseconds. */
async function nextMillisecond(): Promise<void> {
  const now = Date.now();
  await until("the clock has moved", () => Date.now() > now, { everyMs: 1 });
}
