import { describe, expect, it } from "vitest";
import type { Api } from "./api.ts";
import { kubectlOn } from "./run-kubectl.ts";

/** The verbs of everyday with the real kubectl: what people type, and what they read. */
export function describeEveryday(api: () => Api): void {
  const kubectl = kubectlOn(api);

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

    it("creates what it was told to", async () => {
      const name = `${kubectl.namespace()}-made`;
      expect((await kubectl.run("create", "namespace", name)).out).toBe(`namespace/${name} created\n`);
      expect((await kubectl.run("get", "ns", name, "-o", "jsonpath={.status.phase}")).out).toBe("Active");
      await kubectl.run("create", "configmap", "literal", "--from-literal=a=1", "--from-literal=b=2");
      expect((await kubectl.run("get", "cm", "literal", "-o", "jsonpath={.data}")).out).toBe('{"a":"1","b":"2"}');
      await kubectl.run("create", "service", "nodeport", "literal", "--tcp=80:8080");
      const ports = await kubectl.run(
        "get",
        "svc",
        "literal",
        "-o",
        "jsonpath={.spec.type} {.spec.ports[0].targetPort}",
      );
      expect(ports.out).toBe("NodePort 8080");
    });

    it("says of a kind that there is none", async () => {
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

    it("explains kinds and their fields", async () => {
      const containers = await kubectl.run("explain", "pod.spec.containers");
      expect(containers.err).toBe("");
      expect(containers.out).toMatch(/^KIND: {7}Pod\nVERSION: {4}v1\n\nFIELD: containers <\[\]Container>\n/);
      expect(containers.out).toContain("  image\t<string>\n    Container image name.");
      expect((await kubectl.run("explain", "pod.spec.containers.ports.protocol")).out).toContain("ENUM:\n    SCTP\n");
      expect((await kubectl.run("explain", "events", "--api-version=events.k8s.io/v1")).out).toContain("regarding");
      expect((await kubectl.run("explain", "node.such")).err).toContain('error: field "such" does not exist');
      expect((await kubectl.run("explain", "svc", "--recursive")).out).toContain("    sessionAffinity\t<string>");
    });

    it("knows what one may do", async () => {
      expect((await kubectl.run("auth", "can-i", "delete", "nodes")).out).toContain("yes\n");
      expect((await kubectl.run("auth", "can-i", "--list")).out).toMatch(/^\*\.\* +\[\] +\[\] +\[\*\]$/m);
      expect((await kubectl.run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")).out).toBe("admin");
    });

    it("says where the cluster is and of which version", async () => {
      expect((await kubectl.run("cluster-info")).out).toContain(api().cluster.url);
      expect((await kubectl.run("version", "-o", "json")).out).toMatch(/"serverVersion": \{[^}]*"minor": "36"/);
      expect((await kubectl.run("api-versions")).out).toMatch(/^coordination\.k8s\.io\/v1$/m);
    });
  });
}
