import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findKubectl, until } from "@muster/testkit";
import { type Api, pod } from "./api.ts";

type Output = { readonly code: number; readonly out: string; readonly err: string };

/** The kubectl of everyday, without special flags. */
export function describeKubectl(api: () => Api): void {
  const found = findKubectl();
  const title = "path" in found ? "the real program" : `the real program (skipped: ${found.reason})`;
  const program = "path" in found ? found.path : "";
  let home: string;
  let namespace: string;
  let pods: string;
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "muster-kubectl-"));
    namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });
  afterAll(() => rm(home, { recursive: true, force: true }));
  const options = (): { env: NodeJS.ProcessEnv } => ({
    env: { HOME: home, PATH: "/usr/bin:/bin", KUBECONFIG: api().cluster.kubeconfig },
  });
  const kubectl = (...args: string[]): Promise<Output> =>
    new Promise((resolve) => {
      execFile(program, ["--namespace", namespace, ...args], options(), (error, out, err) => {
        resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : 1, out, err });
      });
    });
  const manifest = async (name: string, content: unknown): Promise<string> => {
    const file = join(home, name);
    await writeFile(file, JSON.stringify(content));
    return file;
  };

  describe.skipIf(program === "")(title, () => {
    it("gets pods and nodes by their short names, also wide and as JSON", async () => {
      await api().post(pods, pod("shown"));
      const plain = await kubectl("get", "po");
      expect(plain.out).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE\nshown +0\/1 +Pending +0 +\d+s\n$/);
      expect((await kubectl("get", "po", "-o", "wide")).out).toMatch(/NOMINATED NODE +READINESS GATES\n/);
      expect((await kubectl("get", "po", "shown", "-o", "jsonpath={.kind}/{.metadata.name}")).out).toBe("Pod/shown");
      expect((await kubectl("get", "po", "-o", "name")).out).toContain("pod/shown\n");
      expect((await kubectl("get", "po", "absent")).err).toBe(
        'Error from server (NotFound): pods "absent" not found\n',
      );
      expect((await kubectl("get", "no,ns,cm,svc,sa,events,leases,secrets")).err).toBe("");
    });

    it("lists the existing kinds", async () => {
      const { out, err } = await kubectl("api-resources", "--no-headers");
      expect(err).toBe("");
      for (const kind of [
        "pods",
        "nodes",
        "namespaces",
        "events",
        "services",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "leases",
      ]) {
        expect(out).toMatch(new RegExp(`^${kind} `, "m"));
      }
    });

    it("applies, applies again, applies a change, shows the difference and deletes", async () => {
      const labelled = (app: string): Promise<string> => manifest("applied.json", pod("applied", { labels: { app } }));
      const first = await kubectl("apply", "-f", await labelled("one"));
      expect([first.out, first.err]).toEqual(["pod/applied created\n", ""]);
      const same = await kubectl("apply", "-f", await labelled("one"));
      expect([same.out, same.err]).toEqual(["pod/applied unchanged\n", ""]);
      const changed = await kubectl("apply", "-f", await labelled("two"));
      expect([changed.out, changed.err]).toEqual(["pod/applied configured\n", ""]);
      expect((await kubectl("get", "po", "-l", "app=two", "-o", "name")).out).toBe("pod/applied\n");
      const server = await kubectl("apply", "--server-side", "--force-conflicts", "-f", await labelled("three"));
      expect([server.out, server.err]).toEqual(["pod/applied serverside-applied\n", ""]);
      expect((await kubectl("delete", "-f", join(home, "applied.json"))).out).toContain('pod "applied" deleted');
    });

    it("names the unknown field of a manifest", async () => {
      const file = await manifest("unknown.json", pod("unknown", { spec: { notThere: 1 } }));
      const refused = await kubectl("apply", "-f", file);
      expect(refused.code).toBe(1);
      expect(refused.err).toContain('strict decoding error: unknown field "spec.notThere"');
    });

    it("creates, labels, annotates, patches and runs", async () => {
      expect((await kubectl("create", "-f", await manifest("created.json", pod("created")))).out).toBe(
        "pod/created created\n",
      );
      expect((await kubectl("label", "po", "created", "a=b")).out).toBe("pod/created labeled\n");
      expect((await kubectl("annotate", "po", "created", "a=b")).out).toBe("pod/created annotated\n");
      expect((await kubectl("patch", "po", "created", "-p", '{"metadata":{"labels":{"c":"d"}}}')).out).toBe(
        "pod/created patched\n",
      );
      expect((await kubectl("run", "ran", "--image=program:1")).out).toBe("pod/ran created\n");
      expect((await kubectl("get", "po", "-l", "a=b,c=d", "-o", "name")).out).toBe("pod/created\n");
    });

    it("describes pods with their events, and nodes", async () => {
      const made = await api().post(pods, pod("described"));
      await api().post(`/api/v1/namespaces/${namespace}/events`, {
        metadata: { name: "described-1" },
        involvedObject: {
          kind: "Pod",
          name: "described",
          namespace,
          uid: (made.body["metadata"] as { uid: string }).uid,
        },
        reason: "Tested",
        message: "it was tested",
        type: "Normal",
      });
      const described = await kubectl("describe", "pod", "described");
      expect(described.err).toBe("");
      expect(described.out).toMatch(/^Name: +described\n/);
      expect(described.out).toMatch(/Normal +Tested +.*it was tested/);
      await api().post("/api/v1/nodes", { metadata: { name: "described" } });
      expect((await kubectl("describe", "node", "described")).out).toMatch(/^Name: +described\n/);
    });

    it("cordons a node", async () => {
      await api().post("/api/v1/nodes", { metadata: { name: "cordoned-by-kubectl" } });
      expect((await kubectl("cordon", "cordoned-by-kubectl")).out).toBe("node/cordoned-by-kubectl cordoned\n");
      expect((await kubectl("get", "no", "cordoned-by-kubectl")).out).toContain("SchedulingDisabled");
    });

    it("waits for a condition and for the end", async () => {
      await api().post(pods, pod("waited", { spec: { nodeName: "some-node" } }));
      const ready = kubectl("wait", "po/waited", "--for=condition=Ready", "--timeout=30s");
      await api().patch(`${pods}/waited/status`, "strategic", {
        status: { conditions: [{ type: "Ready", status: "True" }] },
      });
      expect((await ready).out).toBe("pod/waited condition met\n");
      const gone = kubectl("wait", "po/waited", "--for=delete", "--timeout=30s");
      await api().delete(`${pods}/waited`, { gracePeriodSeconds: 0 });
      expect((await gone).code).toBe(0);
    });

    it("deletes and waits until the node has released the pod", async () => {
      await api().post(pods, pod("released", { spec: { nodeName: "some-node" } }));
      const deleted = kubectl("delete", "po", "released");
      await until("the pod is marked", async () =>
        (await api().get(`${pods}/released`)).text.includes("deletionTimestamp"),
      );
      await api().delete(`${pods}/released`, { gracePeriodSeconds: 0 });
      expect((await deleted).out).toContain('pod "released" deleted');
    });

    it("watches, row by row", async () => {
      await api().post(pods, pod("watched", { labels: { watched: "yes" } }));
      const child = spawn(program, ["--namespace", namespace, "get", "po", "-w", "-l", "watched=yes"], options());
      const lines: string[] = [];
      createInterface({ input: child.stdout }).on("line", (line) => lines.push(line.split(/ +/).slice(0, 3).join(" ")));
      await until("the pod is shown", () => lines.length === 2);
      await api().patch(`${pods}/watched/status`, "merge", { status: { phase: "Running" } });
      await until("the change is shown", () => lines.length === 3);
      expect(lines).toEqual(["NAME READY STATUS", "watched 0/1 Pending", "watched 0/1 Running"]);
      child.kill();
    });

    it("shows the version of the server", async () => {
      expect((await kubectl("version")).out).toMatch(/Server Version: v1\.\d+/);
    });
  });
}
