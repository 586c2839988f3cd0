import { readFile } from "node:fs/promises";
import type { Server } from "node:tls";
import { pause } from "@muster/backoff";
import type { Logger } from "@muster/service";
import type { HttpConfig } from "../config.ts";

type Files = NonNullable<HttpConfig["tls"]>;
type Certificate = { readonly cert: string; readonly key: string };

export async function readCertificate({ certFile, keyFile }: Files): Promise<Certificate> {
  const [cert, key] = await Promise.all([readFile(certFile, "utf8"), readFile(keyFile, "utf8")]);
  return { cert, key };
}

/**
 * Serves the certificate in the files, so that a renewal needs no restart. While the files do not match, for example between two writes, the previous
 * certificate stays. `served` is the server's current certificate. Resolves at the signal; open connections keep their certificate.
 */
export async function followCertificate(
  server: Pick<Server, "setSecureContext">,
  files: Files,
  served: Certificate,
  { logger, signal }: { readonly logger: Pick<Logger, "info" | "warn">; readonly signal: AbortSignal },
): Promise<void> {
  let tried = served;
  for (;;) {
    await pause(files.checkMs, signal);
    if (signal.aborted) return;
    try {
      const found = await readCertificate(files);
      if (found.cert === tried.cert && found.key === tried.key) continue;
      tried = found;
      // TLS accepts an empty file, which may be half written, as a missing certificate.
      if (found.cert === "" || found.key === "") throw new Error("a file is empty");
      server.setSecureContext(found);
      logger.info({ file: files.certFile }, "serving a renewed certificate");
    } catch (error) {
      logger.warn({ err: error, file: files.certFile }, "the certificate is not usable; the previous one stays");
    }
  }
}
