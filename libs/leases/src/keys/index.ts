export { digest, makeSigner, readSigner, verifySignature } from "./ed25519.ts";
export type { Signer } from "./ed25519.ts";
export { makeKeyFile, readKeyFile } from "./key-file.ts";
export { openText, sealText } from "./seal.ts";
