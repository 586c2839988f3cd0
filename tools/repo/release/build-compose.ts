/** Converts docker-compose.yml to that of a release: images by digest, no builds. Throws if an image has no digest. */
export function buildCompose(text: string, repository: string, digests: ReadonlyMap<string, string>): string {
  const released = text
    .replaceAll(/^ +build: .*\n/gm, "")
    .replaceAll(/image: muster\/([a-z-]+):\$\{MUSTER_TAG:-dev\}/g, (_, name: string) => {
      const digest = digests.get(name);
      if (digest === undefined)
        throw new Error(`docker-compose.yml names the image ${name}, which the release does not have`);
      return `image: ${repository}/${name}@${digest}`;
    })
    .replace(/^# {3}npm run images .*\n/m, "")
    .replace(/^# {3}npx muster run .*\n/m, "#   muster run SESSION.yaml\n");
  if (/muster\/[a-z-]+:|npx|npm run/.test(released))
    throw new Error("docker-compose.yml has an image or a command that only a clone has");
  return released;
}
