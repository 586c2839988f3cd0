import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { api } from "./conformance/api.ts";

const PROGRAM = join(import.meta.dirname, "programs/api-server.ts");
it("hammer", { timeout: 100000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), "hammer-"));
  const start = async (port: number) => {
    const child = spawn(process.execPath, [PROGRAM, directory, String(port)], { stdio: ["ignore", "pipe", "inherit"] });
    const said = once(createInterface({ input: child.stdout }), "line").then(([l]) => JSON.parse(l as string) as never as {url: string; token: string; ca: string; kubeconfig: string});
    return { child, said };
  };
  let s = await start(0);
  const said = await s.said;
  const port = Number(new URL(said.url).port);
  const client = api({ ...said, kubeletCertificate: { cert: "", key: "" }, collects: true, [Symbol.asyncDispose]: () => Promise.resolve() });
  const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
  const a = await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata: { name: "widgets.x.io" },
    spec: { group: "x.io", scope: "Namespaced", names, versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } } }] },
  } as never);
  expect(a.code).toBe(201);
  const P = "/apis/x.io/v1/namespaces/default/widgets";
  let codes: Record<string, number> = {};
  for (;;) { const r = await client.post(P, { apiVersion: "x.io/v1", kind: "Widget", metadata: { name: "w" } } as never); if (r.code === 201) break; await sleep(10); }
  let stop = false;
  const hammer = async () => { while (!stop) { try { const r = await client.get(`${P}/w`); codes[r.code] = (codes[r.code] ?? 0) + 1; } catch (e) { codes["err"] = (codes["err"] ?? 0) + 1; await sleep(1);} } };
  const hs = Array.from({ length: 8 }, hammer);
  for (let i = 0; i < 4; i++) {
    const exited = once(s.child, "exit");
    s.child.kill("SIGKILL"); await exited;
    s = await start(port); await s.said; await sleep(100);
    console.log(i, JSON.stringify(codes));
  }
  stop = true; await Promise.all(hs);
  s.child.kill("SIGKILL");
});
