import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { type Api, configMap, pod } from "./api.ts";
import { makeKubectl } from "./run-kubectl.ts";
import { conditionIn, install } from "./widgets.ts";

/** The operations of users on existing objects, with the real kubectl. */
export function describeVerbs(api: () => Api): void {
  const kubectl = makeKubectl(api);
  const at = (kind: string, name = ""): string => `/api/v1/namespaces/${kubectl.namespace()}/${kind}/${name}`;
  const addMap = async (name: string, more: Parameters<typeof configMap>[1] = {}): Promise<string> => {
    const made = await api().post(at("configmaps"), configMap(name, more));
    return (made.body["metadata"] as { uid: string }).uid;
  };
  const read = async (...what: readonly string[]): Promise<string> => (await kubectl.run("get", ...what)).out;

  describe.skipIf(kubectl.skip)(kubectl.title, () => {
    it("taints a node, replaces a taint only with --overwrite, and removes taints", async () => {
      await api().post("/api/v1/nodes", { metadata: { name: "tainted" } });
      const taint = (...args: string[]): ReturnType<typeof kubectl.run> =>
        kubectl.run("taint", "nodes", "tainted", ...args);
      expect((await taint("a=b:NoExecute")).out).toBe("node/tainted tainted\n");
      expect((await taint("a=c:NoExecute")).err).toBe(
        "error: node tainted already has a taint(s) with same effect(s) and --overwrite is false\n",
      );
      expect((await taint("a=c:NoExecute", "--overwrite")).out).toBe("node/tainted modified\n");
      expect(await read("node", "tainted", "-o", "jsonpath={.spec.taints[?(@.key=='a')].value}")).toBe("c");
      expect((await taint("a-")).out).toBe("node/tainted untainted\n");
    });

    it("cordons once and uncordons once", async () => {
      await api().post("/api/v1/nodes", { metadata: { name: "twice" } });
      for (const [verb, done] of [
        ["cordon", "cordoned"],
        ["uncordon", "uncordoned"],
      ] as const) {
        expect((await kubectl.run(verb, "twice")).out).toBe(`node/twice ${done}\n`);
        expect((await kubectl.run(verb, "twice")).out).toBe(`node/twice already ${done}\n`);
      }
    });

    it("exposes a pod", async () => {
      await api().post(at("pods"), pod("exposed", { labels: { app: "exposed" } }));
      const exposed = await kubectl.run("expose", "pod", "exposed", "--port=80", "--target-port=8080");
      expect([exposed.out, exposed.err]).toEqual(["service/exposed exposed\n", ""]);
      const shown = ["svc", "exposed", "-o", "jsonpath={.spec.selector} {.spec.ports[0].targetPort}"];
      expect(await read(...shown)).toBe('{"app":"exposed"} 8080');
    });

    it("prunes what is no longer in the manifest", async () => {
      const map = (name: string): object => ({
        ...configMap(name, { metadata: { labels: { set: "one" } } }),
        apiVersion: "v1",
        kind: "ConfigMap",
      });
      const file = (...names: string[]): Promise<string> =>
        kubectl.file("pruned.json", { apiVersion: "v1", kind: "List", items: names.map(map) });
      const flags = ["--prune", "-l", "set=one", "--prune-allowlist=core/v1/ConfigMap"];
      await kubectl.run("apply", "-f", await file("kept", "pruned"), ...flags);
      const pruned = await kubectl.run("apply", "-f", await file("kept"), ...flags);
      expect(pruned.out).toBe("configmap/kept unchanged\nconfigmap/pruned pruned\n");
      expect(await read("cm", "-l", "set=one", "-o", "name")).toBe("configmap/kept\n");
    });

    it("prunes the members of a set that is kept in a secret", async () => {
      const map = (name: string): object => ({ ...configMap(name), apiVersion: "v1", kind: "ConfigMap" });
      const apply = async (...names: string[]): Promise<string> => {
        const file = await kubectl.file("set.json", { apiVersion: "v1", kind: "List", items: names.map(map) });
        const flags = ["apply", "--prune", "--applyset=mine", "-f", file];
        return (await kubectl.runWith({ KUBECTL_APPLYSET: "true" }, ...flags)).out;
      };
      expect(await apply("member-1", "member-2")).toBe("configmap/member-1 created\nconfigmap/member-2 created\n");
      expect(await apply("member-1")).toBe("configmap/member-1 unchanged\nconfigmap/member-2 pruned\n");
    });

    it.each([
      ["orphan", "kept"],
      ["foreground", "gone"],
      ["background", "gone"],
    ])("deletes with --cascade=%s, and the dependents are %s", async (cascade, dependents) => {
      if (!api().cluster.collects) return;
      const uid = await addMap(`owner-${cascade}`);
      const owner = { apiVersion: "v1", kind: "ConfigMap", name: `owner-${cascade}`, uid };
      await addMap(`owned-${cascade}`, { metadata: { ownerReferences: [{ ...owner, blockOwnerDeletion: true }] } });
      const deleted = await kubectl.run("delete", "cm", `owner-${cascade}`, `--cascade=${cascade}`);
      expect(deleted.out).toMatch(new RegExp(`^configmap "owner-${cascade}" deleted`));
      await until("the dependent is as it has to be", async () => {
        const { code, body } = await api().get(at("configmaps", `owned-${cascade}`));
        const { ownerReferences } = (body["metadata"] ?? {}) as { ownerReferences?: unknown };
        return dependents === "gone" ? code === 404 : code === 200 && ownerReferences === undefined;
      });
    });

    it("deletes by label, everything of a kind, as a dry run, and reports missing objects", async () => {
      for (const name of ["by-label", "other"]) await addMap(name, { metadata: { labels: { del: name } } });
      const dry = await kubectl.run("delete", "cm", "other", "--dry-run=server", "-o", "name");
      expect(dry.out).toBe("configmap/other\n");
      expect((await kubectl.run("delete", "cm", "-l", "del=by-label", "-o", "name")).out).toBe("configmap/by-label\n");
      expect((await kubectl.run("delete", "cm", "-l", "del=by-label")).out).toBe("No resources found\n");
      expect(await read("cm", "-l", "del", "-o", "name")).toBe("configmap/other\n");
      const absent = await kubectl.run("delete", "cm", "absent");
      expect(absent.err).toBe('Error from server (NotFound): configmaps "absent" not found\n');
      expect((await kubectl.run("delete", "cm", "absent", "--ignore-not-found")).code).toBe(0);
      const namespace = await api().namespace();
      for (const name of ["a", "b"])
        await api().post(`/api/v1/namespaces/${namespace}/configmaps`, configMap(`all-${name}`));
      const all = await kubectl.run("delete", "cm", "-l", "!kept", "--all=false", "-n", namespace, "-o", "name");
      expect(all.out.match(/^configmap\/all-[ab]$/gm)).toHaveLength(2);
      expect((await kubectl.run("delete", "pods", "--all", "-n", namespace)).out).toBe("No resources found\n");
    });

    it("sorts, lists all namespaces, selects and prints custom columns", async () => {
      for (const [name, rank] of [
        ["sorted-a", "2"],
        ["sorted-b", "1"],
      ] as const) {
        await api().post(at("pods"), pod(name, { labels: { rank } }));
      }
      const names = (...args: string[]): Promise<string> => read("po", "-l", "rank", "-o", "name", ...args);
      expect(await names("--sort-by=.metadata.labels.rank")).toBe("pod/sorted-b\npod/sorted-a\n");
      expect(await names("--sort-by={.metadata.name}")).toBe("pod/sorted-a\npod/sorted-b\n");
      expect(await read("po", "-A", "-l", "rank", "-L", "rank")).toMatch(
        /^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE +RANK\n/,
      );
      expect(await names("--field-selector=metadata.name!=sorted-a,status.phase=Pending")).toBe("pod/sorted-b\n");
      const columns = "custom-columns=N:.metadata.name,R:.metadata.labels.rank";
      expect(await read("po", "-l", "rank=1", "-o", columns)).toBe("N          R\nsorted-b   1\n");
      expect((await kubectl.run("get", "po", "-l", "a in (")).err).toContain(
        "found '', expected: ',', ')' or identifier",
      );
    });

    it("watches with the kinds of events, or only changes", async () => {
      await addMap("watched", { metadata: { labels: { watched: "yes" } } });
      const follow = (...args: string[]): { lines: string[]; end: () => void } => {
        const child = spawn(kubectl.program, ["-n", kubectl.namespace(), "get", "cm", "-l", "watched", ...args], {
          env: kubectl.environment(),
        });
        const lines: string[] = [];
        createInterface({ input: child.stdout }).on("line", (line) => {
          if (!line.includes("NAME")) lines.push(line.split(/ +/).slice(0, 2).join(" "));
        });
        return { lines, end: () => child.kill() };
      };
      const everything = follow("-w", "--output-watch-events");
      const news = follow("--watch-only", "-o", "name");
      await until("what is there is shown", () => everything.lines.length === 1);
      // The start of the other watch cannot be observed: the test changes the object until an event arrives.
      let changes = 0;
      await until("the news are shown", async () => {
        changes += 1;
        await api().patch(at("configmaps", "watched"), "merge", { data: { changes: String(changes) } });
        return news.lines.length > 0;
      });
      await api().delete(at("configmaps", "watched"));
      await until("the end is shown", () => everything.lines.at(-1)?.startsWith("DELETED") === true);
      expect(everything.lines.slice(0, 2)).toEqual(["ADDED watched", "MODIFIED watched"]);
      expect(news.lines[0]).toBe("configmap/watched");
      everything.end();
      news.end();
    });

    it("waits for creation, a condition, and deletion", async () => {
      const made = kubectl.run("wait", "--for=create", "po/awaited", "--timeout=30s");
      await api().post(at("pods"), pod("awaited", { spec: { nodeName: "some-node" } }));
      expect((await made).out).toBe("pod/awaited condition met\n");
      const runs = kubectl.run("wait", "--for=jsonpath={.status.phase}=Running", "po/awaited", "--timeout=30s");
      await api().patch(`${at("pods", "awaited")}/status`, "merge", { status: { phase: "Running" } });
      expect((await runs).out).toBe("pod/awaited condition met\n");
      const late = await kubectl.run("wait", "--for=condition=Ready", "po/awaited", "--timeout=0s");
      expect([late.code, late.err]).toEqual([1, "error: condition not met for pods/awaited\n"]);
      const gone = kubectl.run("wait", "--for=delete", "po/awaited", "--timeout=30s");
      await api().delete(at("pods", "awaited"), { gracePeriodSeconds: 0 });
      expect((await gone).code).toBe(0);
    });

    it("labels and annotates, and replaces only with --overwrite", async () => {
      await addMap("marked", { metadata: { labels: { a: "1" } } });
      expect((await kubectl.run("label", "cm", "marked", "a=2")).err).toBe(
        "error: 'a' already has a value (1), and --overwrite is false\n",
      );
      expect((await kubectl.run("label", "cm", "marked", "a=2", "--overwrite")).out).toBe("configmap/marked labeled\n");
      expect((await kubectl.run("label", "cm", "marked", "a=2")).out).toBe("configmap/marked not labeled\n");
      expect((await kubectl.run("label", "cm", "marked", "a-")).out).toBe("configmap/marked unlabeled\n");
      expect((await kubectl.run("annotate", "cm", "marked", "n=1")).out).toBe("configmap/marked annotated\n");
      expect((await kubectl.run("annotate", "cm", "marked", "--list")).out).toContain("n=1\n");
    });

    it("reports the problems of a patch", async () => {
      await api().post(at("pods"), pod("patched"));
      const patch = async (type: string, given: unknown): Promise<string> =>
        (await kubectl.run("patch", "po", "patched", `--type=${type}`, "-p", JSON.stringify(given))).err;
      expect(await patch("json", [{ op: "test", path: "/spec/nope", value: 1 }])).toBe(
        "The request is invalid: the server rejected our request due to an error in our request\n",
      );
      expect(await patch("strategic", { spec: { nodeName: "other" } })).toContain("pod updates may not change fields");
      expect((await kubectl.run("patch", "po", "patched", "-p", "{}")).out).toBe("pod/patched patched (no change)\n");
    });

    it("reports the rights of the user on resources", async () => {
      const can = async (...args: string[]): Promise<string> => (await kubectl.run("auth", "can-i", ...args)).out;
      expect(await can("*", "*")).toBe("yes\n");
      expect(await can("get", "pods/log")).toBe("yes\n");
    });

    describe("a custom resource", () => {
      let group: string;
      beforeAll(async () => {
        group = `verbs.${kubectl.namespace()}.example.com`;
        const spec = {
          type: "object",
          required: ["replicas"],
          properties: {
            replicas: { type: "integer", minimum: 0, description: "How many." },
            mode: { type: "string", enum: ["a", "b"], default: "a" },
            roles: {
              type: "array",
              items: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
            },
          },
        };
        const status = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
        await install(api(), {
          group,
          plural: "works",
          kind: "Work",
          names: { singular: "work" },
          schema: { type: "object", description: "Work to do.", properties: { spec, status } },
          version: { subresources: { status: {} } },
        });
        await until("it is established", async () => {
          const crd = await api().get(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/works.${group}`);
          return conditionIn(crd.body, "Established").startsWith("True");
        });
        const work = { apiVersion: `${group}/v1`, kind: "Work", metadata: { name: "one" }, spec: { replicas: 6 } };
        await api().post(`/apis/${group}/v1/namespaces/${kubectl.namespace()}/works`, work);
      });

      it("is waited for by the conditions and the fields of its status", async () => {
        const patch = '{"status":{"replicas":6,"conditions":[{"type":"Done","status":"True"}]}}';
        await kubectl.run("patch", "work", "one", "--subresource=status", "--type=merge", "-p", patch);
        for (const what of ["condition=Done", "jsonpath={.status.replicas}=6"]) {
          expect((await kubectl.run("wait", `--for=${what}`, "work/one", "--timeout=30s")).code).toBe(0);
        }
        expect((await kubectl.run("describe", "work", "one")).out).toMatch(
          /Conditions:\n +Status: +True\n +Type: +Done/,
        );
      });

      it("is explained to its last field", async () => {
        await until("it can be explained", async () => (await kubectl.run("explain", "works")).code === 0);
        const { out } = await kubectl.run("explain", "works", "--recursive");
        expect(out).toContain(
          "  spec\t<Object>\n    mode\t<string>\n    enum: a, b\n    replicas\t<integer> -required-\n    roles\t<[]Object>\n      name\t<string> -required-\n",
        );
      });

      it("is edited, also its status, and not with an invalid value", async () => {
        const edit = async (from: string, to: string, ...args: string[]): ReturnType<typeof kubectl.run> => {
          const script = `file="$1"; grep -q '${to}' "$file" && exit 1; sed -i 's/${from}/${to}/' "$file"`;
          return kubectl.runWith({ KUBE_EDITOR: `sh ${await kubectl.file("edit.sh", script)}` }, "edit", ...args);
        };
        expect((await edit("mode: a", "mode: b", "work", "one")).out).toBe(`work.${group}/one edited\n`);
        const refused = await edit("mode: b", "mode: zz", "work", "one");
        expect(refused.err).toContain(`error: works.${group} "one" is invalid\n`);
        const status = await edit("replicas: 6", "replicas: 7", "work", "one", "--subresource=status");
        expect(status.out).toBe(`work.${group}/one edited\n`);
        expect(await read("work", "one", "-o", "jsonpath={.spec} {.status.replicas}")).toMatch(/"replicas":6.* 7$/);
      });
    });
  });
}
