import { join } from "node:path";
import { findOnPath, runProgram, type ProgramSource } from "./source.ts";

export const GO_MODULE = "github.com/nats-io/nats-server/v2@v2.15.2";

/** Builds it with the installed Go, which checks downloads against its checksum database. */
export function makeGoInstall(): ProgramSource {
  return {
    name: `go install ${GO_MODULE}`,
    takes: "a minute",
    fetch: async ({ directory, env, signal }) => {
      const [go] = await findOnPath("go", env);
      if (go === undefined) throw new Error("go is not on PATH");
      await runProgram(go, ["install", GO_MODULE], { env: { ...env, GOBIN: directory, CGO_ENABLED: "0" }, signal });
      return join(directory, "nats-server");
    },
  };
}
