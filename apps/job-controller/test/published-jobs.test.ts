import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { isManifest, findKind, readSample, renderManifest, SAMPLES } from "./render.ts";

describe("the controller's objects for", () => {
  it.each(SAMPLES)("a %s match its golden file", async (name, file) => {
    const text = `${JSON.stringify(renderManifest(readSample(file)), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(`golden/${name}.txt`);
  });
});

describe("the examples of the pages about jobs", () => {
  const pages = ["jobs", "jobs-machines"].map((name) =>
    readFileSync(new URL(`../../../docs/${name}.md`, import.meta.url), "utf8"),
  );
  const blocks = pages.flatMap((page) => [...page.matchAll(/```yaml\n([^]*?)```/g)]);
  const examples = blocks.map(([, text = ""]): unknown => parse(text));

  it("are accepted unchanged, and have pods", () => {
    expect(examples).toHaveLength(7);
    for (const example of examples) {
      if (!isManifest(example)) throw new Error("it is no manifest");
      const { warnings, pods } = renderManifest(example);
      expect(warnings).toEqual([]);
      expect(pods.length).toBeGreaterThan(0);
    }
  });
});

const folder = join(process.env["MUSTER_CRD_FIXTURES"] ?? "", "kubeflow", "examples");
const found = process.env["MUSTER_CRD_FIXTURES"] !== undefined && existsSync(folder);
const reason = "MUSTER_CRD_FIXTURES names no folder with kubeflow/examples, which are those of its training operator";
if (!found && process.env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);

describe.skipIf(!found)(found ? "Kubeflow's own examples" : `Kubeflow's own examples (skipped: ${reason})`, () => {
  const jobs = globSync("**/*.yaml", { cwd: folder })
    .sort()
    .flatMap((file) => {
      const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8"));
      return documents.map((document) => {
        const manifest: unknown = document.toJS();
        return [file, manifest] as const;
      });
    })
    .flatMap(([file, manifest]) =>
      isManifest(manifest) && findKind(manifest) !== undefined ? [[file, manifest] as const] : [],
    );

  it("exist", () => {
    expect(new Set(jobs.map(([, { kind }]) => kind))).toEqual(new Set(["TFJob", "PyTorchJob", "MPIJob"]));
  });

  it.each(jobs)("%s is accepted unchanged, and has pods", (_file, manifest) => {
    const { warnings, pods } = renderManifest(manifest);
    expect(warnings).toEqual([]);
    expect(pods.length).toBeGreaterThan(0);
  });
});
