_inferstore() {
    local IFS=$'\013' line=${COMP_LINE:0:COMP_POINT} words=() piece rest prefix index
    # Bash breaks words at = @ and :, too; for the command, NAME=@FILE is one word.
    for piece in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        rest=${line#"${line%%[![:space:]]*}"}
        # The word at the cursor ends there.
        piece=${rest:0:${#piece}}
        if [[ ${#words[@]} -gt 0 && $rest == "$line" ]]; then
            words[${#words[@]}-1]+=$piece
        else
            words+=("$piece")
        fi
        line=${rest#"$piece"}
    done
    index=$((${#words[@]} - 1))
    words[index]=${words[index]//\\/}
    # Bash replaces what stands behind the last break alone.
    prefix=${words[index]%"${2//\\/}"}
    IFS=$IFS read -r -d '' -a COMPREPLY < <(
        _CLAP_IFS=$IFS _CLAP_COMPLETE_INDEX=$index INFERSTORE_COMPLETE=bash inferstore -- "${words[@]}" 2> /dev/null
    )
    for index in "${!COMPREPLY[@]}"; do
        piece=${COMPREPLY[index]#"$prefix"}
        [[ -z $piece ]] || printf -v piece %q "$piece"
        COMPREPLY[index]=$piece
    done
    # A space follows a word that is complete.
    if [[ ${COMPREPLY-} != *[=/:] ]]; then
        compopt +o nospace 2> /dev/null
    fi
}
if [[ ${BASH_VERSINFO[0]} -gt 4 || ${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _inferstore inferstore ifs
else
    complete -o nospace -o bashdefault -F _inferstore inferstore ifs
fi
command -v ifs > /dev/null || alias ifs=inferstore
