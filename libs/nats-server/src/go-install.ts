import { join } from "node:path";
import { findOnPath, runProgram, type Source } from "./source.ts";

const MODULE = "github.com/nats-io/nats-server/v2@v2.15.2";
const TIMEOUT_MS = 300_000;

/** Builds it with the Go that is installed; Go checks what it downloads against its checksum database. */
export function goInstall(): Source {
  return {
    name: `go install ${MODULE}`,
    timeoutMs: TIMEOUT_MS,
    fetch: async ({ directory, env, signal }) => {
      const [go] = await findOnPath("go", env);
      if (go === undefined) throw new Error("go is not on PATH");
      await runProgram(go, ["install", MODULE], { env: { ...env, GOBIN: directory, CGO_ENABLED: "0" }, signal });
      return join(directory, "nats-server");
    },
  };
}
