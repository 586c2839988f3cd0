import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { buildProcessEnv, until, type TestNats } from "@muster/testkit";

const MAIN = join(import.meta.dirname, "../../gateway/src/main.ts");

export type RunningGateway = AsyncDisposable & {
  readonly url: string;
  /** The token file of a user with all rights. */
  readonly tokenFile: string;
  readonly token: string;
  kill(): Promise<void>;
};

/** Starts a gateway in a separate process, because apps do not import each other. `directory` receives the file with its token. */
export async function startGateway(
  { url, token }: Pick<TestNats, "url" | "token">,
  directory: string,
  env: Readonly<Record<string, string>> = {},
): Promise<RunningGateway> {
  const tokenFile = join(directory, "gateway-token");
  const child = spawn(process.execPath, [MAIN], {
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: url,
      MUSTER_NATS_TOKEN: token,
      GATEWAY_ADDR: "127.0.0.1:0",
      GATEWAY_TOKEN_FILE: tokenFile,
      ...env,
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let logged = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (logged += text));
  const ended = once(child, "close");
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  const address = (): string | undefined => /"url":"(https?:[^"]+)"[^\n]*serving the API/.exec(logged)?.[1];
  await until("the gateway serves or has ended", () => address() !== undefined || child.exitCode !== null);
  const found = address();
  if (found === undefined) throw new Error(`the gateway has ended: ${logged}`);
  const secret = (await readFile(tokenFile, "utf8")).trim();
  return { url: found, tokenFile, token: secret, kill, [Symbol.asyncDispose]: kill };
}
