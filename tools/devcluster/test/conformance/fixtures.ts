import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { until } from "@muster/testkit";
import { isObject, type JsonObject, getList, getText } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";
import { conditionIn, DEFINITIONS } from "./widgets.ts";

/** Definitions of Kubeflow, and the objects that come with them: the definitions that documents of Muster install beside its own. */
export function describeFixtures(api: () => Api): void {
  const folder = join(process.env["MUSTER_CRD_FIXTURES"] ?? "", "kubeflow");
  const found = process.env["MUSTER_CRD_FIXTURES"] !== undefined && existsSync(folder);
  const reason = "MUSTER_CRD_FIXTURES names no folder with kubeflow";
  const objects = found ? readObjects(folder) : [];
  const definitions = objects.filter((one) => getText(one, "kind") === "CustomResourceDefinition");

  describe.skipIf(!found)(found ? "of Kubeflow" : `of Kubeflow (skipped: ${reason})`, () => {
    it("has some to try", () => {
      expect(definitions.length).toBeGreaterThan(0);
    });

    it.each(definitions.map((one) => [getText(one, "metadata", "name"), one] as const))(
      "installs %s",
      async (name, definition) => {
        const made = await api().post(DEFINITIONS, definition);
        expect(made.code, made.text).toBe(201);
        await until("it is established", async () => {
          const { body } = await api().get(`${DEFINITIONS}/${name}`);
          return conditionIn(body, "Established") === "True InitialNamesAccepted";
        });
      },
    );

    it("takes the objects that come with them", async () => {
      const namespace = await api().namespace();
      const kinds = new Map(definitions.map((one) => [getText(one, "spec", "names", "kind"), one]));
      const examples = objects.filter((one) => kinds.has(getText(one, "kind")));
      for (const example of examples) {
        const spec = kinds.get(getText(example, "kind"));
        const plural = getText(spec, "spec", "names", "plural");
        const path = `/apis/${getText(example, "apiVersion")}/namespaces/${namespace}/${plural}`;
        await until(`${plural} are served`, async () => (await api().get(path)).code === 200);
        const body = { ...example, metadata: { name: getText(example, "metadata", "name") } };
        const made = await api().post(`${path}?fieldValidation=Strict`, body);
        expect(made.code, made.text).toBe(201);
        expect(getList((await api().get(path)).body, "items").length).toBeGreaterThan(0);
      }
    });
  });
}

function readObjects(folder: string): JsonObject[] {
  return globSync("**/*.yaml", { cwd: folder }).flatMap((file) =>
    parseAllDocuments(readFileSync(join(folder, file), "utf8"))
      .map((document) => document.toJS() as unknown)
      .filter(isObject),
  );
}
