# The Homebrew formula, for Linux. The release fills in what is in capitals.
class Inferstore < Formula
  desc "Inference and storage service, and its command"
  homepage "REPOSITORY"
  url "REPOSITORY/releases/download/vVERSION/inferstore-VERSION-x86_64-unknown-linux-gnu.tar.gz"
  sha256 "SHA256"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/inferstore"
    zsh_completion.install "share/zsh/vendor-completions/_inferstore"
    fish_completion.install "share/fish/vendor_completions.d/inferstore.fish"
    doc.install Dir["share/doc/inferstore/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/inferstore --version")
    assert_match "haze-removal", shell_output("#{bin}/inferstore demo --out #{testpath}")
  end
end
