import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import type { Api } from "./api.ts";
import { makeKubectl } from "./run-kubectl.ts";
import { definition } from "./widgets.ts";

/** An editor that works without a user. */
const EDITOR = `import { readFileSync, writeFileSync } from "node:fs";
const file = process.argv.at(-1);
writeFileSync(file, readFileSync(file, "utf8").replace('a: "1"', "a: edited"));
`;

/** The everyday verbs with the real kubectl: the commands of users, and their output. */
export function describeEveryday(api: () => Api): void {
  const kubectl = makeKubectl(api);

  describe.skipIf(kubectl.skip)(kubectl.title, () => {
    it.each([
      [["create", "configmap", "made", "--from-literal=a=b"], "configmap/made created\n"],
      [["create", "secret", "generic", "made", "--from-literal=a=b"], "secret/made created\n"],
      [["create", "serviceaccount", "made"], "serviceaccount/made created\n"],
      [["create", "service", "clusterip", "made", "--tcp=80:8080"], "service/made created\n"],
      [["run", "made", "--image=program:1", "--port=80"], "pod/made created\n"],
    ])("kubectl %j", async (args, expected) => {
      const { out, err } = await kubectl.run(...args);
      expect([out, err]).toEqual([expected, ""]);
    });

    it("creates namespaces, config maps and services", async () => {
      const name = `${kubectl.namespace()}-made`;
      expect((await kubectl.run("create", "namespace", name)).out).toBe(`namespace/${name} created\n`);
      expect((await kubectl.run("get", "ns", name, "-o", "jsonpath={.status.phase}")).out).toBe("Active");
      await kubectl.run("create", "configmap", "literal", "--from-literal=a=1", "--from-literal=b=2");
      expect((await kubectl.run("get", "cm", "literal", "-o", "jsonpath={.data}")).out).toBe('{"a":"1","b":"2"}');
      await kubectl.run("create", "service", "clusterip", "literal", "--tcp=80:8080");
      const ports = await kubectl.run(
        "get",
        "svc",
        "literal",
        "-o",
        "jsonpath={.spec.type} {.spec.ports[0].targetPort}",
      );
      expect(ports.out).toBe("ClusterIP 8080");
    });

    it("reports an unknown kind", async () => {
      const file = await kubectl.file("nope.yaml", "{apiVersion: foo/v1, kind: Nope, metadata: {name: a}}");
      for (const verb of ["create", "apply"]) {
        const { err, code } = await kubectl.run(verb, "-f", file);
        expect(code).toBe(1);
        expect(err).toBe(
          `error: resource mapping not found for name: "a" namespace: "" from "${file}": no matches for kind "Nope" in version "foo/v1"\nensure CRDs are installed first\n`,
        );
      }
    });

    it("applies a list of several kinds", async () => {
      const items = [
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "in-list" }, data: { a: "b" } },
        { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "in-list" } },
      ];
      const file = await kubectl.file("list.json", { apiVersion: "v1", kind: "List", items });
      const { out, err } = await kubectl.run("apply", "-f", file);
      expect([out, err]).toEqual(["configmap/in-list created\nserviceaccount/in-list created\n", ""]);
    });

    it("applies on the server what was applied by the client", async () => {
      const named = (a: string): Promise<string> =>
        kubectl.file("both.json", {
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: { name: "both" },
          data: { a, b: "1" },
        });
      expect((await kubectl.run("apply", "-f", await named("1"))).out).toBe("configmap/both created\n");
      const server = await kubectl.run("apply", "--server-side", "-f", await named("2"));
      expect([server.out, server.err]).toEqual(["configmap/both serverside-applied\n", ""]);
      expect((await kubectl.run("diff", "-f", await named("2"))).code).toBe(0);
      expect((await kubectl.run("apply", "-f", await named("3"))).out).toBe("configmap/both configured\n");
      const forced = ["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", await named("4")];
      expect((await kubectl.run(...forced)).out).toBe("configmap/both serverside-applied\n");
      expect((await kubectl.run("get", "cm", "both", "-o", "jsonpath={.data}")).out).toBe('{"a":"4","b":"1"}');
    });

    it("edits, replaces, labels, annotates, patches in three ways and deletes", async () => {
      const data = { a: "1" };
      const metadata = { name: "edited" };
      const file = await kubectl.file("edited.json", { apiVersion: "v1", kind: "ConfigMap", metadata, data });
      await kubectl.run("create", "-f", file);
      const editor = await kubectl.file("editor.mjs", EDITOR);
      const env = { KUBE_EDITOR: `${process.execPath} ${editor}` };
      expect((await kubectl.runWith(env, "edit", "cm", "edited")).out).toBe("configmap/edited edited\n");
      expect((await kubectl.run("get", "cm", "edited", "-o", "jsonpath={.data.a}")).out).toBe("edited");
      expect((await kubectl.run("replace", "-f", file)).out).toBe("configmap/edited replaced\n");
      expect((await kubectl.run("label", "cm", "edited", "x=y")).out).toBe("configmap/edited labeled\n");
      expect((await kubectl.run("annotate", "cm", "edited", "x=y")).out).toBe("configmap/edited annotated\n");
      const patches: readonly (readonly [type: string, patch: unknown])[] = [
        ["strategic", { data: { b: "2" } }],
        ["merge", { data: { a: null } }],
        [
          "json",
          [
            { op: "test", path: "/data/b", value: "2" },
            { op: "add", path: "/data/c", value: "3" },
          ],
        ],
      ];
      for (const [type, patch] of patches) {
        const { out } = await kubectl.run("patch", "cm", "edited", "--type", type, "-p", JSON.stringify(patch));
        expect(out).toBe("configmap/edited patched\n");
      }
      expect((await kubectl.run("get", "cm", "edited", "-o", "jsonpath={.data}")).out).toBe('{"b":"2","c":"3"}');
      expect((await kubectl.run("get", "cm", "-l", "x in (y,z),!absent", "-o", "name")).out).toBe("configmap/edited\n");
      expect((await kubectl.run("delete", "cm", "edited")).out).toContain('configmap "edited" deleted');
      expect((await kubectl.run("wait", "cm/edited", "--for=delete", "--timeout=5s")).code).toBe(0);
    });

    it("shows events", async () => {
      const path = `/api/v1/namespaces/${kubectl.namespace()}/events`;
      const involvedObject = { kind: "Pod", name: "p", namespace: kubectl.namespace() };
      const lastTimestamp = new Date(Date.now() - 60_000).toISOString();
      await api().post(path, {
        metadata: { name: "shown" },
        involvedObject,
        lastTimestamp,
        type: "Warning",
        reason: "Shown",
        message: "it was shown",
      });
      expect((await kubectl.run("events")).out).toMatch(/Warning +Shown +Pod\/p +it was shown/);
      expect((await kubectl.run("get", "events")).out).toMatch(/Warning +Shown +pod\/p +it was shown/);
    });

    it("works with custom resources as with others", async () => {
      const group = `${kubectl.namespace()}.example.com`;
      const properties = {
        spec: {
          type: "object",
          description: "What is wanted.",
          properties: {
            size: { type: "string", enum: ["small", "large"], description: "How large it is." },
            replicas: { type: "integer", default: 1 },
          },
        },
        status: { type: "object", properties: { replicas: { type: "integer" } } },
      };
      const crd = definition({
        group,
        plural: "gadgets",
        kind: "Gadget",
        names: { shortNames: ["gd"], categories: ["all"] },
        schema: { type: "object", description: "A gadget.", properties },
        version: {
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: "Size", type: "string", jsonPath: ".spec.size" },
            { name: "Replicas", type: "integer", jsonPath: ".spec.replicas", priority: 1 },
          ],
        },
      });
      const installed = await kubectl.run("apply", "-f", await kubectl.file("crd.json", crd));
      expect([installed.out, installed.err]).toEqual([
        `customresourcedefinition.apiextensions.k8s.io/gadgets.${group} created\n`,
        "",
      ]);
      const established = ["wait", `crd/gadgets.${group}`, "--for=condition=Established", "--timeout=20s"];
      expect((await kubectl.run(...established)).code).toBe(0);
      await until("gadgets are served", async () => (await api().get(`/apis/${group}/v1/gadgets`)).code === 200);

      const gadget = (spec: object): Promise<string> =>
        kubectl.file("gadget.json", { apiVersion: `${group}/v1`, kind: "Gadget", metadata: { name: "one" }, spec });
      expect((await kubectl.run("apply", "-f", await gadget({ size: "small" }))).out).toBe(
        `gadget.${group}/one created\n`,
      );
      const server = await kubectl.run("apply", "--server-side", "-f", await gadget({ size: "large" }));
      expect(server.out).toBe(`gadget.${group}/one serverside-applied\n`);
      const wrong = await kubectl.run("apply", "-f", await gadget({ size: "huge", nope: 1 }));
      expect(wrong.err).toContain('strict decoding error: unknown field "spec.nope"');
      expect((await kubectl.run("get", "gd")).out).toMatch(/^NAME +SIZE\none +large\n$/);
      expect((await kubectl.run("get", "gd", "-o", "wide")).out).toMatch(/^NAME +SIZE +REPLICAS\none +large +1\n$/);
      expect((await kubectl.run("get", "all")).out).toContain(`gadget.${group}/one`);
      expect((await kubectl.run("describe", "gd", "one")).out).toMatch(/Spec:\n +Replicas: +1\n +Size: +large\n/);
      const strategic = await kubectl.run("patch", "gd", "one", "-p", "{}");
      expect(strategic.err).toContain("application/strategic-merge-patch+json is not supported by");
      const explained = await kubectl.run("explain", "gadget.spec.size");
      expect(explained.out).toContain(
        "KIND:       Gadget\nVERSION:    v1\n\nFIELD: size <string>\nENUM:\n    small\n    large\n",
      );
      expect(explained.out).toContain("How large it is.");
      expect((await kubectl.run("api-resources", `--api-group=${group}`, "--no-headers")).out).toMatch(
        /^gadgets +gd +.* true +Gadget\n$/,
      );
      expect((await kubectl.run("delete", "crd", `gadgets.${group}`)).out).toContain("deleted");
      await until("they are gone", async () => (await api().get(`/apis/${group}/v1/gadgets`)).code === 404);
    });

    it("explains kinds and their fields", async () => {
      const containers = await kubectl.run("explain", "pod.spec.containers");
      expect(containers.err).toBe("");
      expect(containers.out).toMatch(/^KIND: {7}Pod\nVERSION: {4}v1\n\nFIELD: containers <\[\]Container>\n/);
      expect(containers.out).toContain("  image\t<string>\n    Container image name.");
      expect((await kubectl.run("explain", "pod.spec.containers.ports.protocol")).out).toContain("ENUM:\n    SCTP\n");
      expect((await kubectl.run("explain", "node.such")).err).toContain('error: field "such" does not exist');
      expect((await kubectl.run("explain", "svc", "--recursive")).out).toContain("    sessionAffinity\t<string>");
    });

    it("reports the rights of the user", async () => {
      expect((await kubectl.run("auth", "can-i", "delete", "nodes")).out).toContain("yes\n");
      expect((await kubectl.run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")).out).toBe("admin");
    });

    it("shows the address and the version of the cluster", async () => {
      expect((await kubectl.run("cluster-info")).out).toContain(api().cluster.url);
      expect((await kubectl.run("version", "-o", "json")).out).toMatch(/"serverVersion": \{[^}]*"minor": "36"/);
      expect((await kubectl.run("api-versions")).out).toMatch(/^coordination\.k8s\.io\/v1$/m);
    });
  });
}
